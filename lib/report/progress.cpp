// Definitions of report/progress.hpp.
#include "report/progress.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "report/console_reporter.hpp"

namespace kvbench {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole >= 3600) {
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

std::string progress_line(const std::string& label, const std::string& unit, std::int64_t done,
                          std::int64_t total, double seconds) {
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  const std::string speed =
      rate > 0 ? fmt::format("  {} {}/s", human_rate(rate), unit) : std::string();
  if (total <= 0) return fmt::format("{}  {} {}{}", label, human_count(done), unit, speed);

  constexpr int kBarCells = 24;
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(share * kBarCells);
  const std::string bar = std::string(filled, '#') + std::string(kBarCells - filled, '.');
  const std::string left =
      rate > 0
          ? "  " + clock_text(std::max(0.0, static_cast<double>(total - done) / rate)) + " left"
          : "";
  return fmt::format("{} {:3.0f} % [{}] {}/{} {}{}{}", label, 100 * share, bar, human_count(done),
                     human_count(total), unit, speed, left);
}

Progress::Progress(std::string label, std::string unit, std::int64_t total, bool quiet)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      shown_(!quiet && isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      next_draw_(start_ + kRedrawInterval) {}

Progress::~Progress() {
  finish();
}

void Progress::update(std::int64_t done) {
  if (!shown_) return;
  const Clock::time_point now = Clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + kRedrawInterval;
  dirty_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  // Return to the margin, the line, then erase what an earlier, longer line left.
  fmt::print(stderr, "\r{}\033[K", progress_line(label_, unit_, done, total_, seconds));
}

void Progress::finish() {
  if (dirty_) std::fputs("\r\033[K", stderr);
  dirty_ = false;
}

}  // namespace kvbench
