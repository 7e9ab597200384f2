// Definitions of needle_probe.hpp.
#include "task/needle_probe.hpp"

#include <algorithm>
#include <cmath>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/stats.hpp"
#include "engine/generate.hpp"

namespace kvbench {
namespace {

// -log softmax(logits)[id]
double negative_log_probability(std::span<const float> logits, std::int32_t id) {
  const auto largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double total = 0.0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit) - largest);
  return std::log(total) + largest - static_cast<double>(logits[static_cast<std::size_t>(id)]);
}

}  // namespace

NeedleProbe::NeedleProbe(const Model& model, Backend& backend, EvictionPolicy& policy,
                         const SessionOptions& options)
    : model_(model),
      knows_future_(policy.traits().needs.replay.tokens == ReplayNeeds::Tokens::continuation),
      session_(model, backend, policy, options),
      logits_(static_cast<std::size_t>(model.config().vocab_size)) {}

ProbeResult NeedleProbe::ask(const ProbeQuestion& question) {
  KVB_CHECK(!question.question.empty() && !question.reply.empty(), "a question without ids");
  ProbeResult result;
  auto begun = Clock::now();
  start(question, result);
  session_.last_logits(logits_);
  result.prompt_seconds = seconds_since(begun);
  const KvCache& cache = session_.cache();
  result.kv_bytes_live = cache.live_bytes();
  result.kv_bytes_peak = cache.peak_live_bytes();
  result.evicted = session_.evicted_entries();
  result.prompt_tokens = session_.tokens_fed();
  result.needle_kept = needle_kept(question.needles);
  begun = Clock::now();
  answer_greedily(question, result);
  result.answer_seconds = seconds_since(begun);
  score_reply(question, result);
  return result;
}

// Leaves the session behind the question's last token.
void NeedleProbe::start(const ProbeQuestion& question, ProbeResult& result) {
  fed_after_prompt_ = 0;
  const auto n_prompt = std::ssize(question.context) + std::ssize(question.question);
  const auto text_tokens =
      n_prompt + std::max<std::int64_t>(question.new_tokens, std::ssize(question.reply));
  const auto same = [&] {
    return text_tokens == text_tokens_ &&
           std::equal(context_.begin(), context_.end(), question.context.begin(),
                      question.context.end());
  };
  if (question.hidden && !context_.empty() && same()) {
    session_.rewind(fed_after_context_);
    fed_after_context_ = 0;
    feed(question.question, {}, {}, result);
    return;
  }
  context_.clear();
  std::vector<std::int32_t> all(question.context.begin(), question.context.end());
  all.insert(all.end(), question.question.begin(), question.question.end());
  all.insert(all.end(), question.reply.begin(), question.reply.end());
  const std::size_t compressed =
      question.hidden ? question.context.size() : static_cast<std::size_t>(n_prompt);
  const std::span<const std::int32_t> ids(all);
  text_tokens_ = text_tokens;
  session_.begin(text_tokens);
  session_.prefill(ids.first(compressed), {}, {}, ids.subspan(compressed));
  result.tokens_fed += static_cast<std::int64_t>(compressed);
  fed_after_context_ = 0;
  if (!question.hidden) return;
  if (session_.can_rewind() && !knows_future_) {
    context_.assign(question.context.begin(), question.context.end());
  }
  feed(question.question, {}, {}, result);
}

void NeedleProbe::feed(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
                       std::span<double> nll, ProbeResult& result) {
  session_.feed(ids, targets, nll);
  fed_after_context_ += std::ssize(ids);
  result.tokens_fed += std::ssize(ids);
}

void NeedleProbe::answer_greedily(const ProbeQuestion& question, ProbeResult& result) {
  const std::int64_t before = session_.tokens_fed();
  Generation answer = generate_greedy(
      session_, {.max_new_tokens = question.new_tokens, .stop_ids = question.stop_ids});
  result.ids = std::move(answer.ids);
  result.stopped = answer.stopped;
  fed_after_prompt_ = session_.tokens_fed() - before;
  fed_after_context_ += fed_after_prompt_;
  result.tokens_fed += fed_after_prompt_;
}

void NeedleProbe::score_reply(const ProbeQuestion& question, ProbeResult& result) {
  std::vector<double> nll(question.reply.size());
  nll.front() = negative_log_probability(logits_, question.reply.front());
  if (nll.size() > 1) {
    if (fed_after_prompt_ > 0 && session_.can_rewind()) {
      session_.rewind(fed_after_prompt_);
      fed_after_context_ -= fed_after_prompt_;
      fed_after_prompt_ = 0;
    } else if (fed_after_prompt_ > 0) {
      start(question, result);
    }
    feed(question.reply.first(nll.size() - 1), question.reply.subspan(1),
         std::span<double>(nll).subspan(1), result);
  }
  result.reply_nll = sum(nll);
}

double NeedleProbe::needle_kept(std::span<const NeedlePlace> needles) const {
  const std::int64_t sinks = model_.sinks().count();
  const KvCacheShape& shape = session_.cache().shape();
  std::int64_t kept = 0;
  std::int64_t all = 0;
  for (std::int64_t layer = 0; layer < shape.n_layers; ++layer) {
    for (std::int64_t kv_head = 0; kv_head < shape.n_kv_heads; ++kv_head) {
      const std::vector<std::int32_t> positions = session_.kept_positions(layer, kv_head);
      for (const NeedlePlace& needle : needles) {
        const auto first =
            std::lower_bound(positions.begin(), positions.end(), sinks + needle.first);
        kept +=
            std::lower_bound(first, positions.end(), sinks + needle.first + needle.tokens) - first;
        all += needle.tokens;
      }
    }
  }
  return all > 0 ? static_cast<double>(kept) / static_cast<double>(all) : 0.0;
}

}  // namespace kvbench
