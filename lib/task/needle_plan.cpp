// Definitions of needle_plan.hpp.
#include "task/needle_plan.hpp"

#include <algorithm>
#include <cmath>

#include "config/parse_number.hpp"
#include "core/error.hpp"
#include "metric/answer_match.hpp"

namespace kvbench {
namespace {

constexpr int kMostDraws = 100;
constexpr std::int64_t kSpareTokens = 4;

// FNV-1a: an independent random sequence for each name.
std::uint64_t stream_of(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return hash;
}

class NeedlePlanner {
 public:
  NeedlePlanner(const NeedleRequest& request, const TokenSource& source, const NeedleFrame& frame);

  NeedlePlan plan();

 private:
  void add_prompts(const NeedleTemplate& row, std::int64_t length, std::int64_t repeat);
  NeedleCase draw_case(const NeedleTemplate& row, std::int64_t length, std::int64_t repeat,
                       const std::string& haystack_text) const;
  NeedlePieces pieces_of(const NeedleCase& drawn, const NeedleQuestion& question) const;
  std::vector<std::int32_t> encode(const std::string& text, SpecialTokens specials) const;
  NeedleItem start_item(const NeedleTemplate& row, const NeedleCase& drawn, std::size_t query,
                        std::int64_t length, std::int64_t repeat) const;
  void add_item(NeedleItem item, const NeedleCase& drawn, std::int64_t first, double depth);
  std::int64_t prompt_tokens(const NeedleItem& item) const {
    return request_.length_is_total ? item.length - item.new_tokens : item.length;
  }

  const NeedleRequest& request_;
  const Tokenizer& tokenizer_;
  std::vector<std::int32_t> ids_;  // of all documents
  Haystack haystack_;
  std::vector<std::int32_t> bos_;  // one id or none
  NeedlePlan plan_;
};

std::vector<std::int32_t> joined(const TokenSource& source) {
  std::vector<std::int32_t> ids;
  for (const TokenDocument& document : source.documents) {
    ids.insert(ids.end(), document.ids.begin(), document.ids.end());
  }
  return ids;
}

NeedlePlanner::NeedlePlanner(const NeedleRequest& request, const TokenSource& source,
                             const NeedleFrame& frame)
    : request_(request),
      tokenizer_(*source.tokenizer),
      ids_(joined(source)),
      haystack_(ids_, tokenizer_, request.between_sentences) {
  plan_.frame = frame;
  // A chat template spells its own first token out.
  if (!frame.chat && request.haystack.bos == "auto" && tokenizer_.bos_id()) {
    bos_ = {*tokenizer_.bos_id()};
  } else if (request.haystack.bos != "auto" && request.haystack.bos != "none") {
    bos_ = {static_cast<std::int32_t>(
        parse_int(request.haystack.bos, 0, INT32_MAX, "--bos (none, auto or an id)"))};
  }
  plan_.bos = bos_.empty() ? "none" : std::to_string(bos_.front());
}

NeedlePlan NeedlePlanner::plan() {
  for (const std::string& name : request_.templates) {
    const NeedleTemplate& row = find_needle_template(name);
    for (const std::int64_t length : request_.lengths) {
      for (std::int64_t repeat = 0; repeat < request_.repeats; ++repeat) {
        add_prompts(row, length, repeat);
      }
    }
  }
  return std::move(plan_);
}

std::vector<std::int32_t> NeedlePlanner::encode(const std::string& text,
                                                SpecialTokens specials) const {
  return tokenizer_.encode(text, {.specials = specials, .source = "the needle's text"});
}

// Facts that the haystack does not hold already.
NeedleCase NeedlePlanner::draw_case(const NeedleTemplate& row, std::int64_t length,
                                    std::int64_t repeat, const std::string& haystack_text) const {
  std::string found;
  for (int attempt = 0; attempt < kMostDraws; ++attempt) {
    Rng rng(request_.seed,
            stream_of(fmt::format("{} {} {} {}", row.name, length, repeat, attempt)));
    NeedleCase drawn = row.make(rng, request_.own);
    check_needle_case(row.name, drawn);
    found.clear();
    for (const NeedleQuestion& question : drawn.questions) {
      for (const std::string& answer : question.answers) {
        if (contains_text(haystack_text, answer)) found = answer;
      }
    }
    if (found.empty()) return drawn;
  }
  config_error("needle template {}: the haystack holds the answer \"{}\" already", row.name, found);
}

NeedlePieces NeedlePlanner::pieces_of(const NeedleCase& drawn,
                                      const NeedleQuestion& question) const {
  const NeedleFrame& frame = plan_.frame;
  const SpecialTokens specials = frame.chat ? SpecialTokens::parse : SpecialTokens::text;
  NeedlePieces pieces;
  pieces.intro = bos_;
  const auto intro = encode(frame.before + drawn.intro, specials);
  pieces.intro.insert(pieces.intro.end(), intro.begin(), intro.end());
  for (const std::string& needle : drawn.needles) {
    pieces.needles.push_back(encode(needle, SpecialTokens::text));
  }
  const std::string lead =
      frame.chat || question.lead.empty() ? question.lead : " " + question.lead;
  pieces.question = encode("\n\n" + question.text + frame.after + lead, specials);
  return pieces;
}

NeedleItem NeedlePlanner::start_item(const NeedleTemplate& row, const NeedleCase& drawn,
                                     std::size_t query, std::int64_t length,
                                     std::int64_t repeat) const {
  const NeedleQuestion& question = drawn.questions[query];
  NeedleItem item;
  item.template_name = row.name;
  item.length = length;
  item.repeat = repeat;
  item.query = static_cast<std::int64_t>(query);
  item.answers = question.answers;
  item.chance = question.chance;
  // After a lead the reply begins with its blank; the first word of a chat's answer has none.
  const bool bare = plan_.frame.chat && question.lead.empty();
  item.reply = encode(bare ? question.reply.substr(1) : question.reply, SpecialTokens::text);
  item.new_tokens =
      request_.new_tokens > 0 ? request_.new_tokens : std::ssize(item.reply) + kSpareTokens;
  return item;
}

void NeedlePlanner::add_prompts(const NeedleTemplate& row, std::int64_t length,
                                std::int64_t repeat) {
  Rng rng(request_.seed, stream_of(fmt::format("haystack {} {}", length, repeat)));
  const std::int64_t spare = haystack_.size() - length;
  const auto first =
      spare > 0 ? static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(spare))) : 0;
  const std::string text = tokenizer_.decode(haystack_.cut(first, length));
  const NeedleCase drawn = draw_case(row, length, repeat, text);
  for (const double depth : request_.depths) {
    for (std::size_t query = 0; query < drawn.questions.size(); ++query) {
      add_item(start_item(row, drawn, query, length, repeat), drawn, first, depth);
    }
  }
  for (std::size_t query = 0; request_.control && query < drawn.questions.size(); ++query) {
    NeedleItem item = start_item(row, drawn, query, length, repeat);
    item.control = true;
    NeedlePieces pieces = pieces_of(drawn, drawn.questions[query]);
    pieces.needles.clear();
    item.prompt = assemble_needle_prompt(pieces, haystack_, first, prompt_tokens(item), {});
    plan_.items.push_back(std::move(item));
  }
}

// The first needle stands at `depth`, and the others go round from there.
void NeedlePlanner::add_item(NeedleItem item, const NeedleCase& drawn, std::int64_t first,
                             double depth) {
  const NeedleQuestion& question = drawn.questions[static_cast<std::size_t>(item.query)];
  const NeedlePieces pieces = pieces_of(drawn, question);
  const std::size_t n = pieces.needles.size();
  std::vector<double> depths;
  for (std::size_t i = 0; i < n; ++i) {
    const double place = depth + static_cast<double>(i) / static_cast<double>(n);
    depths.push_back(place > 1.0 ? place - 1.0 : place);
  }
  item.prompt = assemble_needle_prompt(pieces, haystack_, first, prompt_tokens(item), depths);
  for (std::size_t i = n; i-- > 0;) {
    const auto holds = [&](const std::string& answer) {
      return contains_text(drawn.needles[i], answer);
    };
    if (std::none_of(question.answers.begin(), question.answers.end(), holds)) continue;
    item.asked.push_back(item.prompt.needles[i]);
    item.depth = std::round(depths[i] * 1e6) / 1e6;  // of the first one asked about
  }
  plan_.items.push_back(std::move(item));
}

}  // namespace

NeedlePlan plan_needles(const NeedleRequest& request, const TokenSource& source,
                        const NeedleFrame& frame) {
  return NeedlePlanner(request, source, frame).plan();
}

}  // namespace kvbench
