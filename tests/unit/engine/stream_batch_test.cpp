// Streams in lockstep: losses and kept entries are those of each sequence run alone, whatever their
// lengths, the policy and the number of threads.
#include "engine/stream_batch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/registry.hpp"
#include "core/error.hpp"
#include "core/rng.hpp"
#include "policy/registry.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/random_model.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using Ids = std::vector<std::int32_t>;
// Places in the text of what is kept, [layer * kv_head].
using Kept = std::vector<Ids>;

constexpr double kMostNllGap = 5e-4;

struct Loaded {
  Loaded(const std::filesystem::path& directory, int threads)
      : backend(make_backend("cpu", threads)),
        model(Model::load(directory, *backend, DType::f32)) {}
  std::unique_ptr<Backend> backend;
  Model model;
};

// Heads of 16, for which decoding has loops of its own; other head sizes take the general ones.
Loaded& loaded(std::int64_t head_dim, int threads) {
  static std::map<std::pair<std::int64_t, int>, Loaded> all;
  const auto found = all.find({head_dim, threads});
  if (found != all.end()) return found->second;
  const test::TempDir directory;
  test::write_random_llama(directory, {.group = 2, .head_dim = head_dim}, 5);
  return all.try_emplace({head_dim, threads}, directory.path(), threads).first->second;
}

struct Text {
  Ids ids;
  std::size_t prompt;
};

// Of all lengths, so that streams drop out one after another.
std::vector<Text> some_texts(std::size_t n, bool prompts) {
  Rng rng(3);
  std::vector<Text> texts;
  for (std::size_t i = 0; i < n; ++i) {
    Text text{{}, prompts ? 12 + 5 * (i % 3) : 0};
    const std::size_t length = text.prompt + 3 + (i * 17) % 31;
    for (std::size_t at = 0; at < length; ++at) {
      text.ids.push_back(static_cast<std::int32_t>(rng.below(32)));
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

struct Outcome {
  std::vector<double> nll;
  Kept kept;
  std::int64_t evicted;
  std::int64_t ties;
};

Outcome outcome_of(const Session& session, const ModelConfig& config, std::vector<double> nll) {
  Outcome outcome{std::move(nll), {}, session.evicted_entries(), session.ties_at_cut()};
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    for (std::int64_t head = 0; head < config.n_kv_heads; ++head) {
      outcome.kept.push_back(session.kept_positions(layer, head));
    }
  }
  return outcome;
}

void begin(Session& session, const Text& text) {
  session.begin(std::ssize(text.ids));
  const std::span<const std::int32_t> ids(text.ids);
  if (text.prompt > 0) session.prefill(ids.first(text.prompt), {}, {}, ids.subspan(text.prompt));
}

Outcome run_alone(const Model& model, Backend& backend, const std::string& policy, const Text& text,
                  const SessionOptions& options) {
  const ConfiguredPolicy configured = make_policy(policy);
  Session session(model, backend, *configured.policy, options);
  begin(session, text);
  const auto rest = std::span<const std::int32_t>(text.ids).subspan(text.prompt);
  std::vector<double> nll(rest.size() - 1);
  session.feed(rest.first(nll.size()), rest.subspan(1), nll);
  return outcome_of(session, model.config(), nll);
}

// A stream whose text ends takes the next one.
std::vector<Outcome> run_streams(const Model& model, Backend& backend, const std::string& policy,
                                 const std::vector<Text>& texts, std::int64_t n_streams,
                                 const SessionOptions& options) {
  struct Place {
    std::size_t text;
    std::size_t fed;
  };
  StreamBatch batch(
      model, backend, n_streams, [&] { return make_policy(policy).policy; }, options);
  std::vector<Outcome> outcomes(texts.size());
  std::vector<std::vector<double>> nll(texts.size());
  std::vector<Place> places(static_cast<std::size_t>(n_streams), {texts.size(), 0});
  std::size_t next = 0;
  for (;;) {
    std::vector<StreamBatch::Turn> turns;
    for (std::int64_t stream = 0; stream < n_streams; ++stream) {
      Place& place = places[static_cast<std::size_t>(stream)];
      if (place.text == texts.size()) {
        if (next == texts.size()) continue;
        place = {next, texts[next].prompt};
        nll[next].resize(texts[next].ids.size() - texts[next].prompt - 1);
        begin(batch.session(stream), texts[next++]);
      }
      const Text& text = texts[place.text];
      const auto n = std::min<std::size_t>(static_cast<std::size_t>(batch.tokens_per_turn()),
                                           text.ids.size() - 1 - place.fed);
      const std::span<const std::int32_t> ids(text.ids);
      turns.push_back({.stream = stream,
                       .ids = ids.subspan(place.fed, n),
                       .targets = ids.subspan(place.fed + 1, n),
                       .nll = std::span(nll[place.text]).subspan(place.fed - text.prompt, n)});
    }
    if (turns.empty()) return outcomes;
    batch.feed(turns);
    for (const StreamBatch::Turn& turn : turns) {
      Place& place = places[static_cast<std::size_t>(turn.stream)];
      place.fed += turn.ids.size();
      if (place.fed + 1 < texts[place.text].ids.size()) continue;
      outcomes[place.text] =
          outcome_of(batch.session(turn.stream), model.config(), nll[place.text]);
      place.text = texts.size();
    }
  }
}

void check_same(const Outcome& streams, const Outcome& alone) {
  CHECK(streams.kept == alone.kept);
  CHECK(streams.evicted == alone.evicted);
  CHECK(streams.ties == alone.ties);
  REQUIRE(streams.nll.size() == alone.nll.size());
  double gap = 0.0;
  for (std::size_t i = 0; i < alone.nll.size(); ++i) {
    gap = std::fmax(gap, std::abs(streams.nll[i] - alone.nll[i]));
  }
  CHECK(gap < kMostNllGap);
}

void check_policy(const Model& model, Backend& backend, const std::string& policy,
                  const std::vector<Text>& texts, const SessionOptions& options) {
  CAPTURE(policy);
  std::vector<Outcome> alone;
  for (const Text& text : texts) {
    alone.push_back(run_alone(model, backend, policy, text, options));
  }
  for (const std::int64_t n_streams : {2, 5, 16}) {
    CAPTURE(n_streams);
    const auto streams = run_streams(model, backend, policy, texts, n_streams, options);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(i);
      check_same(streams[i], alone[i]);
    }
  }
}

TEST_CASE("streams of unequal lengths are what each is alone") {
  const auto texts = some_texts(11, false);
  for (const int threads : {1, 2}) {
    for (const std::int64_t head_dim : {4, 16}) {
      CAPTURE(threads);
      CAPTURE(head_dim);
      Loaded& on = loaded(head_dim, threads);
      for (const std::string policy :
           {"full", "window9", "sink2+6", "sink2+6:evict=before", "sink2+6:positions=original",
            "h2o:heavy=4,recent=4", "h2o:heavy=4,recent=4,evict=before",
            "h2o:heavy=4,recent=4,interval=3", "h2o:heavy=4,recent=4,positions=cache_index",
            "tova:capacity=8", "random:capacity=8", "snapkv:capacity=8,window=4,timing=decode",
            "criticalkv:scorer=snapkv,capacity=8,window=4,timing=decode"}) {
        check_policy(on.model, *on.backend, policy, texts, {.chunk = 32});
      }
    }
  }
}

TEST_CASE("streams after compressed prompts are what each is alone") {
  const auto texts = some_texts(7, true);
  Loaded& on = loaded(16, 2);
  for (const std::string policy :
       {"full", "sink2+6", "snapkv:capacity=8,window=4", "snapkv:keep=0.5,window=4",
        "h2o:heavy=4,recent=4", "tova:capacity=8", "kvzip:capacity=8", "oracle:capacity=8",
        "adakv:scorer=snapkv,capacity=8,window=4"}) {
    check_policy(on.model, *on.backend, policy, texts, {.chunk = 8});
  }
}

TEST_CASE("quantised streams are what each is alone") {
  Loaded& on = loaded(16, 2);
  const SessionOptions options{.chunk = 8,
                               .kivi = KiviOptions{.bits = 4, .group = 4, .residual = 8}};
  for (const bool prompts : {false, true}) {
    for (const std::string policy : {"full", "h2o:heavy=10,recent=10", "sink2+18"}) {
      check_policy(on.model, *on.backend, policy, some_texts(6, prompts), options);
    }
  }
}

TEST_CASE("streams of every kind of place are what each is alone") {
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  for (const std::string name : {"llama_rope_llama3_small", "mistral_w4", "qwen2_flag_true_mwl1"}) {
    CAPTURE(name);
    const Model model = Model::load(test::tiny_model(name), *backend, DType::f32);
    for (const std::string policy : {"full", "sink2+6", "h2o:heavy=4,recent=4"}) {
      check_policy(model, *backend, policy, some_texts(5, false), {.chunk = 8});
    }
  }
}

TEST_CASE("more streams than texts: the others idle") {
  Loaded& on = loaded(16, 2);
  const auto texts = some_texts(2, false);
  const auto streams =
      run_streams(on.model, *on.backend, "h2o:heavy=4,recent=4", texts, 16, {.chunk = 4});
  for (std::size_t i = 0; i < texts.size(); ++i) {
    check_same(streams[i], run_alone(on.model, *on.backend, "h2o:heavy=4,recent=4", texts[i], {}));
  }
}

TEST_CASE("logits of all streams, and of a session that shares its transformer") {
  Loaded& on = loaded(16, 1);
  StreamBatch batch(on.model, *on.backend, 3, [] { return make_policy("full").policy; },
                    {.chunk = 4});
  const Ids first = {3, 5, 7};
  std::vector<StreamBatch::Turn> turns;
  for (std::int64_t stream = 0; stream < 3; ++stream) {
    batch.session(stream).begin(4);
    turns.push_back(
        {.stream = stream, .ids = std::span(first).subspan(static_cast<std::size_t>(stream), 1)});
  }
  batch.feed(turns);
  std::vector<float> all(3 * 32);
  batch.last_logits(all);
  for (std::int64_t stream = 0; stream < 3; ++stream) {
    const ConfiguredPolicy policy = make_policy("full");
    Session alone(on.model, *on.backend, *policy.policy, {});
    alone.begin(4);
    alone.feed(turns[static_cast<std::size_t>(stream)].ids);
    std::vector<float> expected(32);
    alone.last_logits(expected);
    std::vector<float> shared(32);
    batch.session(stream).last_logits(shared);
    for (std::size_t i = 0; i < 32; ++i) {
      CHECK(all[static_cast<std::size_t>(stream) * 32 + i] == doctest::Approx(expected[i]));
      CHECK(shared[i] == doctest::Approx(expected[i]));
    }
  }
  // The transformer then holds the states of stream 0 alone.
  batch.session(0).feed(std::span(first).first(1));
  std::vector<float> shared(32);
  CHECK_NOTHROW(batch.session(0).last_logits(shared));
  CHECK_THROWS_AS(batch.session(1).last_logits(shared), InternalError);
}

TEST_CASE("contracts between caller and streams") {
  Loaded& on = loaded(16, 2);
  CHECK_THROWS_AS(StreamBatch(on.model, *on.backend, 2,
                              [] { return make_policy("recompute8").policy; }, {.chunk = 8}),
                  InternalError);
  StreamBatch batch(on.model, *on.backend, 3, [] { return make_policy("tova:capacity=8").policy; },
                    {.chunk = 9});
  CHECK(batch.tokens_per_turn() == 1);
  const Ids ids = {1, 2, 99};
  const std::span<const std::int32_t> all(ids);
  for (std::int64_t stream = 0; stream < 3; ++stream) batch.session(stream).begin(8);
  using Turns = std::vector<StreamBatch::Turn>;
  CHECK_THROWS_AS(batch.feed(Turns{{.stream = 0, .ids = all.first(2)}}), InternalError);
  CHECK_THROWS_AS(batch.feed(Turns{{.stream = 3, .ids = all.first(1)}}), InternalError);
  CHECK_THROWS_AS(
      batch.feed(Turns{{.stream = 1, .ids = all.first(1)}, {.stream = 1, .ids = all.first(1)}}),
      InternalError);
  // A bad id of one stream leaves no entry behind in the others.
  const std::string message = test::error_text<DataError>([&] {
    batch.feed(Turns{{.stream = 0, .ids = all.first(1)}, {.stream = 2, .ids = all.subspan(2, 1)}});
  });
  CHECK(test::contains(message, "token id 99 outside 0..31"));
  CHECK(batch.session(0).cache().longest() == 0);
}

}  // namespace
}  // namespace kvbench
