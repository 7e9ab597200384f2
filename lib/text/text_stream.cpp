// Assembly of characters from the bytes of several tokens.
#include "text/text_stream.hpp"

#include "text/utf8.hpp"

namespace kvbench {
namespace {

void append_replacements(std::size_t count, std::string& out) {
  for (std::size_t i = 0; i < count; ++i) out.append(kReplacementCharacter);
}

}  // namespace

void ByteJoiner::add_bytes(std::string_view bytes, std::string& out) {
  held_.append(bytes);
  if (rule_ != BadBytes::whole_run || live_) drain(out);
}

void ByteJoiner::add_text(std::string_view text, std::string& out) {
  end_run(out);
  out.append(text);
}

void ByteJoiner::end_run(std::string& out) {
  if (rule_ == BadBytes::whole_run) {
    if (!run_is_bad_ && !find_invalid_utf8(held_)) {
      out.append(held_);
    } else {
      append_replacements(held_.size(), out);
    }
  } else if (!held_.empty()) {
    append_replacements(rule_ == BadBytes::each_part ? 1 : held_.size(), out);
  }
  held_.clear();
  run_is_bad_ = false;
}

// Leaves in held_ at most the start of one character.
void ByteJoiner::drain(std::string& out) {
  std::string_view rest = held_;
  while (!rest.empty() && !run_is_bad_) {
    const Utf8Step step = utf8_step(rest);
    if (step.kind == Utf8Kind::incomplete) break;
    std::size_t count = step.byte_count;
    if (step.kind == Utf8Kind::complete) {
      out.append(rest.substr(0, count));
    } else if (rule_ == BadBytes::whole_run) {
      run_is_bad_ = true;
      break;
    } else {
      if (rule_ == BadBytes::each_byte) count = 1;
      out.append(kReplacementCharacter);
    }
    rest.remove_prefix(count);
  }
  if (run_is_bad_) {
    append_replacements(rest.size(), out);
    rest = {};
  }
  held_.erase(0, held_.size() - rest.size());
}

}  // namespace kvbench
