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
                         const SessionOptions& options, PromptTwin* twin)
    : model_(model),
      twin_(twin),
      knows_future_(policy.traits().needs.replay.tokens == ReplayNeeds::Tokens::continuation),
      session_(model, backend, policy, options),
      copies_(!session_.can_rewind() && !options.kivi),
      logits_(static_cast<std::size_t>(model.config().vocab_size)) {
  if (copies_) branch_ = std::make_unique<Session>(model, backend, policy, options);
}

ProbeResult NeedleProbe::ask(const ProbeQuestion& question) {
  KVB_CHECK(!question.question.empty() && !question.reply.empty(), "a question without ids");
  ProbeResult result;
  const double shared_seconds = twin_ != nullptr ? twin_->seconds() : 0.0;
  auto begun = Clock::now();
  compress(question, result);
  Session& session = at_question_end(question, result);
  session.last_logits(logits_);
  result.prompt_seconds = seconds_since(begun);
  if (twin_ != nullptr) result.prompt_seconds -= twin_->seconds() - shared_seconds;
  result.kv_bytes_live = session.cache().live_bytes();
  result.kv_bytes_peak = session.cache().peak_live_bytes();
  result.evicted = session.evicted_entries();
  result.prompt_tokens = session.tokens_fed();
  result.needle_kept = needle_kept(session, question.needles);
  begun = Clock::now();
  answer_greedily(session, question, result);
  result.answer_seconds = seconds_since(begun);
  score_reply(question, result);
  return result;
}

void NeedleProbe::release() {
  context_.clear();
  session_.release();
  if (branch_) branch_->release();
}

bool NeedleProbe::stands_behind(const ProbeQuestion& question, std::int64_t text_tokens) const {
  return question.hidden && !context_.empty() && text_tokens == text_tokens_ &&
         std::ranges::equal(context_, question.context);
}

// Leaves session_ behind what the policy compresses.
void NeedleProbe::compress(const ProbeQuestion& question, ProbeResult& result) {
  const auto n_prompt = std::ssize(question.context) + std::ssize(question.question);
  const auto text_tokens =
      n_prompt + std::max<std::int64_t>(question.new_tokens, std::ssize(question.reply));
  if (stands_behind(question, text_tokens)) return;
  context_.clear();
  std::vector<std::int32_t> all(question.context.begin(), question.context.end());
  all.insert(all.end(), question.question.begin(), question.question.end());
  all.insert(all.end(), question.reply.begin(), question.reply.end());
  const std::size_t n =
      question.hidden ? question.context.size() : static_cast<std::size_t>(n_prompt);
  const auto ids = std::span<const std::int32_t>(all).first(n);
  const auto future = std::span<const std::int32_t>(all).subspan(n);
  text_tokens_ = text_tokens;
  session_.begin(text_tokens);
  if (twin_ != nullptr) {
    session_.prefill_from(twin_->after(ids, text_tokens), ids, future);
  } else {
    session_.prefill(ids, {}, {}, future);
  }
  result.tokens_fed += static_cast<std::int64_t>(n);
  compressed_ = session_.tokens_fed();
  const bool again = question.hidden && !knows_future_ && (copies_ || session_.can_rewind());
  if (again) context_.assign(question.context.begin(), question.context.end());
}

// A session behind the question's last token; what is fed to it leaves no trace.
Session& NeedleProbe::at_question_end(const ProbeQuestion& question, ProbeResult& result) {
  Session& session = copies_ ? *branch_ : session_;
  const std::int64_t fed_later = session_.tokens_fed() - compressed_;
  if (copies_) {
    session.continue_from(session_);
  } else if (session_.can_rewind()) {
    session_.rewind(fed_later);
  } else if (fed_later > 0) {
    compress(question, result);
  }
  if (question.hidden) {
    session.feed(question.question);
    result.tokens_fed += std::ssize(question.question);
  }
  return session;
}

void NeedleProbe::answer_greedily(Session& session, const ProbeQuestion& question,
                                  ProbeResult& result) {
  const std::int64_t before = session.tokens_fed();
  Generation answer = generate_greedy(
      session, {.max_new_tokens = question.new_tokens, .stop_ids = question.stop_ids});
  result.ids = std::move(answer.ids);
  result.stopped = answer.stopped;
  result.tokens_fed += session.tokens_fed() - before;
}

void NeedleProbe::score_reply(const ProbeQuestion& question, ProbeResult& result) {
  std::vector<double> nll(question.reply.size());
  nll.front() = negative_log_probability(logits_, question.reply.front());
  if (nll.size() > 1) {
    Session& session = at_question_end(question, result);
    session.feed(question.reply.first(nll.size() - 1), question.reply.subspan(1),
                 std::span<double>(nll).subspan(1));
    result.tokens_fed += std::ssize(nll) - 1;
  }
  result.reply_nll = sum(nll);
}

double NeedleProbe::needle_kept(const Session& session,
                                std::span<const NeedlePlace> needles) const {
  const std::int64_t sinks = model_.sinks().count();
  const KvCacheShape& shape = session.cache().shape();
  std::int64_t kept = 0;
  std::int64_t all = 0;
  for (std::int64_t layer = 0; layer < shape.n_layers; ++layer) {
    for (std::int64_t kv_head = 0; kv_head < shape.n_kv_heads; ++kv_head) {
      const std::vector<std::int32_t> positions = session.kept_positions(layer, kv_head);
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
