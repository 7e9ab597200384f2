// Options of `kvbench trace`: one token list under one policy, read out in full.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/kvbench/commands.hpp"
#include "apps/kvbench/options.hpp"
#include "core/error.hpp"
#include "report/console_reporter.hpp"
#include "report/json_reporter.hpp"
#include "task/run_options.hpp"
#include "task/text_options.hpp"
#include "task/trace.hpp"
#include "text/tokenizer.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

struct TraceOptions {
  SettingSet settings;
  RunOptions run;
  TraceRequest request;
  std::string ids;
  std::string decode;
  std::string id_file;
  std::string text;
  bool json = false;
};

TraceRequest resolve(const TraceOptions& options) {
  TraceRequest request = options.request;
  static_cast<RunSettings&>(request) = options.run.resolve();
  if (!options.decode.empty()) request.decode = parse_ids(options.decode, "--decode");
  const int sources = (options.ids.empty() ? 0 : 1) + (options.id_file.empty() ? 0 : 1) +
                      (options.text.empty() ? 0 : 1);
  if (sources != 1) config_error("give one of --ids, --ids-file and --text");
  if (!options.ids.empty()) request.ids = parse_ids(options.ids, "--ids");
  if (!options.id_file.empty()) request.ids = read_id_file(options.id_file);
  if (!options.text.empty()) {
    request.ids = Tokenizer::load(options.run.model)->encode(options.text);
  }
  return request;
}

// Entries per head: [layer][kv_head].
Json row_counts(const KeptPlaces& kept) {
  Json counts = Json::array();
  for (const auto& layer : kept) {
    counts.push_back(Json::array());
    for (const auto& places : layer) counts.back().push_back(places.size());
  }
  return counts;
}

Json to_json(const Trace& trace) {
  return {{"policy", trace.policy},
          {"ids", trace.ids},
          {"nll", trace.nll},
          {"last_logits", trace.last_logits},
          {"generated", trace.generated},
          {"finish", trace.finish.empty() ? Json() : Json(trace.finish)},
          {"rows_after_prompt", row_counts(trace.kept_after_prompt)},
          {"rows", row_counts(trace.kept)},
          {"kept_after_prompt", trace.kept_after_prompt},
          {"kept", trace.kept},
          {"kv_bytes_live", trace.kv_bytes_live},
          {"kv_bytes_allocated", trace.kv_bytes_allocated},
          {"kv_bytes_peak", trace.kv_bytes_peak},
          {"evicted", trace.evicted},
          {"ties_at_cut", trace.ties_at_cut},
          {"quantised_rows", trace.quantised_rows},
          {"warnings", trace.warnings}};
}

// "0-3 900-1919": ascending places, runs closed up.
std::string runs(const std::vector<std::int32_t>& places) {
  std::string text;
  for (std::size_t i = 0; i < places.size();) {
    std::size_t end = i;
    while (end + 1 < places.size() && places[end + 1] == places[end] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : " ", places[i]);
    if (end > i) text += fmt::format("-{}", places[end]);
    i = end + 1;
  }
  return text.empty() ? "nothing" : text;
}

void print_losses(const Trace& trace) {
  fmt::print("{:>8} {:>8} {:>10}\n", "token", "id", "nll");
  for (std::size_t i = 0; i < trace.ids.size(); ++i) {
    if (i == 0) {
      fmt::print("{:>8} {:>8} {:>10}\n", i, trace.ids[i], "-");
    } else {
      fmt::print("{:>8} {:>8} {:>10.6f}\n", i, trace.ids[i], trace.nll[i - 1]);
    }
  }
}

void print_top_logits(const Trace& trace) {
  constexpr std::size_t kShown = 10;
  std::vector<std::size_t> order(trace.last_logits.size());
  std::iota(order.begin(), order.end(), 0);
  const std::size_t shown = std::min(kShown, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      const float x = trace.last_logits[a];
                      const float y = trace.last_logits[b];
                      return x != y ? x > y : a < b;
                    });
  fmt::print("last logits:");
  for (std::size_t i = 0; i < shown; ++i) {
    fmt::print(" {}={:.6f}", order[i], trace.last_logits[order[i]]);
  }
  fmt::print("\n");
}

void print_text(const Trace& trace) {
  print_losses(trace);
  print_top_logits(trace);
  if (!trace.finish.empty()) {
    fmt::print("generated ({}):", trace.finish);
    for (const std::int32_t id : trace.generated) fmt::print(" {}", id);
    fmt::print("\n");
  }
  for (std::size_t layer = 0; layer < trace.kept.size(); ++layer) {
    for (std::size_t kv_head = 0; kv_head < trace.kept[layer].size(); ++kv_head) {
      const auto& places = trace.kept[layer][kv_head];
      fmt::print("layer {} kv head {} keeps {}: {}\n", layer, kv_head, places.size(), runs(places));
    }
  }
  fmt::print("KV: {} live, {} allocated, {} live at most; {} entries evicted, {} of them tied\n",
             human_bytes(static_cast<double>(trace.kv_bytes_live)),
             human_bytes(static_cast<double>(trace.kv_bytes_allocated)),
             human_bytes(static_cast<double>(trace.kv_bytes_peak)), trace.evicted,
             trace.ties_at_cut);
  if (trace.quantised_rows > 0) fmt::print("{} rows quantised\n", trace.quantised_rows);
  for (const std::string& warning : trace.warnings) fmt::print("warning: {}\n", warning);
}

void run(const TraceOptions& options) {
  const Trace trace = run_trace(resolve(options));
  if (options.json) {
    fmt::print("{}\n", dump_json(to_json(trace)));
  } else {
    print_text(trace);
  }
}

}  // namespace

void add_trace_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "trace", "One token list under one policy: losses, logits, generation, kept entries");
  const auto options = std::make_shared<TraceOptions>();
  options->run.declare(options->settings);
  SettingSet& settings = options->settings;
  settings.text("policy", options->request.policy, "Policy, as in full or sink4+1020");
  settings.text("ids", options->ids, "Token ids of the prompt: 1,2,3");
  settings.text("ids_file", options->id_file, "File of token ids");
  settings.text("text", options->text, "Text of the prompt");
  settings.text("decode", options->decode, "Forced ids after the prompt, fed one by one");
  settings.integer("greedy", options->request.greedy, 0, INT64_C(1) << 30,
                   "Tokens to generate after those");
  settings.flag("ignore_stop_ids", options->request.ignore_stop_ids,
                "Generate on past the model's stop tokens");
  settings.flag("json", options->json, "Print one JSON document");
  add_settings(*command, settings);
  command->footer(
      "Examples:\n"
      "  kvbench trace --model llama-2-7b --text \"Emma Woodhouse, handsome\" --policy sink2+4\n"
      "  kvbench trace --model llama-2-7b --ids 1,5,9,2 --decode 7,3 --greedy 8 --json");
  command->callback([options] { run(*options); });
}

}  // namespace kvbench
