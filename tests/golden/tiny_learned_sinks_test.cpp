// Learned sinks: rows of a tensor before the text are, to the bit, what rows of the vocabulary with
// the same values would be, under every policy; and what is refused.
#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "core/error.hpp"
#include "tests/golden/tiny_run.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/small_policies.hpp"

namespace kvbench {
namespace {

using test::contains;
using test::Ids;

// Rows of a model's embedding, laid end to end.
std::vector<float> embedding_rows(const std::filesystem::path& model, const std::string& tensor,
                                  const Ids& ids) {
  const Checkpoint checkpoint = Checkpoint::open(model);
  const TensorView& table = checkpoint.require(tensor);
  const std::int64_t hidden = table.shape[1];
  std::vector<float> rows(ids.size() * static_cast<std::size_t>(hidden));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    to_floats(table, ids[i] * hidden, hidden, rows.data() + i * static_cast<std::size_t>(hidden));
  }
  return rows;
}

constexpr const char* kLlamaEmbedding = "model.embed_tokens.weight";

// A folder with a file of sinks, and with the tiny Llama that holds them itself.
struct Folder {
  explicit Folder(const Ids& ids) {
    const std::vector<float> rows = embedding_rows(test::checkpoint("llama"), kLlamaEmbedding, ids);
    const Shape shape{static_cast<std::int64_t>(ids.size()), 16};
    file = directory
               .write("sinks.safetensors",
                      test::SafetensorsBuilder().add_f32("sink_tokens.weight", shape, rows).bytes())
               .string();
    auto tensors = test::tiny_tensors("llama");
    tensors.push_back({"sink_tokens.weight", DType::f32, shape, test::bytes_of(rows)});
    test::write_tensors(directory, tensors);
    test::write_config(directory, test::tiny_config("llama"));
  }
  test::TempDir directory;
  std::string file;
};

Ids joined(const Ids& a, const Ids& b) {
  Ids both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

void check_equal(const Trace& learned, const Trace& spelled, std::size_t sinks) {
  CHECK(learned.last_logits == spelled.last_logits);
  CHECK(learned.kept_after_prompt == spelled.kept_after_prompt);
  CHECK(learned.kept == spelled.kept);
  CHECK(learned.evicted == spelled.evicted);
  CHECK(learned.kv_bytes_live == spelled.kv_bytes_live);
  REQUIRE(learned.nll.size() + sinks == spelled.nll.size());
  for (std::size_t i = 0; i < learned.nll.size(); ++i) {
    CHECK(learned.nll[i] == spelled.nll[i + sinks]);
  }
}

TEST_CASE("rows of a tensor are as rows of the vocabulary, under every policy") {
  const test::SmallPolicies small{test::RandomModelShape{}};
  for (const Ids& sinks : {Ids{7}, Ids{7, 21, 3}}) {
    const Folder folder(sinks);
    for (const PolicyInfo& info : policies()) {
      for (const std::int64_t budget : {9, 64}) {
        for (const std::int64_t chunk : {2, 64}) {
          CAPTURE(info.name);
          CAPTURE(budget);
          CAPTURE(chunk);
          const std::string text = test::full_text(*small.make(info, budget));
          TraceRequest request = test::trace_request("llama", text, test::ids_of("P20"));
          request.decode = test::ids_of("D6");
          request.chunk = chunk;
          request.greedy = 3;
          TraceRequest spelled = request;
          spelled.ids = joined(sinks, request.ids);
          const Trace expected = run_trace(spelled);
          request.sinks.file = folder.file;
          check_equal(run_trace(request), expected, sinks.size());
          request.sinks = {.tensor = "sink_tokens.weight"};
          request.model = folder.directory.path().string();
          check_equal(run_trace(request), expected, sinks.size());
        }
      }
    }
  }
}

// Scaled embeddings, position tables and families of other tensor names take part as usual.
TEST_CASE("learned sinks under other families") {
  struct Case {
    const char* model;
    const char* embedding;
  };
  for (const Case& c : {Case{"gemma2", kLlamaEmbedding}, Case{"gpt2", "wte.weight"},
                        Case{"gpt_neox", "gpt_neox.embed_in.weight"}}) {
    CAPTURE(std::string(c.model));
    const std::filesystem::path model = test::golden_directory() / "families" / c.model;
    const std::vector<float> row = embedding_rows(model, c.embedding, {7});
    const test::TempDir directory;
    TraceRequest request;
    request.model = model.string();
    request.ids = {1, 5, 9, 2, 11};
    request.sinks.file = directory.write(
        "one.safetensors",
        test::SafetensorsBuilder()
            .add_f32("sink", {static_cast<std::int64_t>(row.size())}, row)  // one row needs no axis
            .bytes());
    TraceRequest spelled = request;
    spelled.sinks = {};
    spelled.ids = joined({7}, request.ids);
    check_equal(run_trace(request), run_trace(spelled), 1);
  }
}

TEST_CASE("perplexity is that of a vocabulary row put first, but for the row's own prediction") {
  const Folder folder({7});
  for (const char* policy : {"full", "sink1+6", "sink2+6:evict=before", "window8", "recompute8",
                             "h2o:heavy=4,recent=4", "tova:capacity=8"}) {
    CAPTURE(policy);
    PplRequest request;
    request.model = test::checkpoint("llama").string();
    request.tokens.ids = {test::ids_of("P40"), test::ids_of("P20")};
    request.policies = {policy};
    request.chunk = 7;
    PplRequest spelled = request;
    spelled.tokens.bos = "7";
    request.sinks.file = folder.file;
    TaskContext context;
    context.quiet = true;
    const RunRecord found = run_ppl(request, context).front();
    const RunRecord with_bos = run_ppl(spelled, context).front();
    REQUIRE(found.ok);
    double first_tokens = 0.0;
    for (const Ids& ids : request.tokens.ids) {
      first_tokens += run_trace(test::trace_request("llama", policy, {7, ids.front()})).nll[0];
    }
    const auto metric = [](const RunRecord& record, const char* name) {
      return *find_metric(record, name)->value;
    };
    CHECK(metric(found, "tokens_scored") == metric(with_bos, "tokens_scored") - 2);
    CHECK(metric(found, "nll_sum") ==
          doctest::Approx(metric(with_bos, "nll_sum") - first_tokens).epsilon(1e-6));
    CHECK(metric(found, "evictions") == metric(with_bos, "evictions"));
    const auto config = nlohmann::json::parse(found.config_json);
    CHECK(config["learned_sinks"]["rows"] == 1);
    CHECK(config["learned_sinks"]["sha256"].get<std::string>().size() == 64);
    CHECK_FALSE(nlohmann::json::parse(with_bos.config_json).contains("learned_sinks"));
  }
}

// Each prompt of protocol continue is a text of its own, and begins with the sinks.
TEST_CASE("every text begins with the sinks: each segment, and each sequence of a session") {
  const Folder folder({7});
  PplRequest request;
  request.model = test::checkpoint("llama").string();
  request.policies = {"full"};
  request.protocol = "continue";
  request.protocol_options = {.prompt = 8, .score = 4};
  request.sinks.file = folder.file;
  const Ids p40 = test::ids_of("P40");
  request.tokens.ids = {Ids(p40.begin(), p40.begin() + 25)};
  TaskContext context;
  context.quiet = true;
  const RunRecord record = run_ppl(request, context).front();
  double expected = 0.0;
  for (const std::ptrdiff_t first : {0, 12}) {
    const Ids text = joined({7}, Ids(p40.begin() + first, p40.begin() + first + 13));
    const Trace trace = run_trace(test::trace_request("llama", "full", text));
    for (std::size_t i = trace.nll.size() - 4; i < trace.nll.size(); ++i) expected += trace.nll[i];
  }
  CHECK(*find_metric(record, "nll_sum")->value == doctest::Approx(expected).epsilon(1e-6));
}

std::string fault(const SinkSource& sinks, const std::string& policy = "full",
                  const std::string& model = test::checkpoint("llama").string()) {
  TraceRequest request = test::trace_request("llama", policy, {1, 2, 3});
  request.model = model;
  request.sinks = sinks;
  return test::error_text<Error>([&] { run_trace(request); });
}

TEST_CASE("what cannot be a learned sink is refused, by file, tensor and shape") {
  const Folder folder({7});
  const std::string own = folder.directory.path().string();
  std::string message = fault({.tensor = "sink_token.weight"}, "full", own);
  CHECK(contains(message, own));
  CHECK(contains(message, "did you mean sink_tokens.weight?"));
  message = fault({.tensor = "model.norm.weights", .file = folder.file});
  CHECK(contains(message, folder.file));
  CHECK(contains(message, "model.norm.weights"));
  // Not named, the tensor belongs to nothing.
  CHECK(contains(fault({}, "full", own), "sink_tokens.weight"));
  CHECK(contains(fault({.file = folder.file}, "sink2+6:sink_tokens=newline,newline_id=3"),
                 "learned sinks"));

  const auto write = [&](const std::string& name, const test::SafetensorsBuilder& file) {
    return folder.directory.write(name, file.bytes()).string();
  };
  const std::vector<float> row(16, 0.5f);
  const auto two =
      write("two.safetensors",
            test::SafetensorsBuilder().add_f32("a", {16}, row).add_f32("b", {16}, row));
  CHECK(contains(fault({.file = two}), "found 2"));
  CHECK(fault({.tensor = "b", .file = two}) == "no error");
  for (const Shape& shape : {Shape{8}, Shape{2, 8}, Shape{1, 1, 16}, Shape{16, 1}, Shape{0, 16}}) {
    std::int64_t elements = 1;
    for (const std::int64_t size : shape) elements *= size;
    const std::vector<float> values(static_cast<std::size_t>(elements), 0.5f);
    message = fault({.tensor = "s",
                     .file = write("shape.safetensors",
                                   test::SafetensorsBuilder().add_f32("s", shape, values))});
    CHECK(contains(message, "tensor s with the learned sinks is " + to_string(shape)));
    CHECK(contains(message, "expected [16] or [n, 16]"));
  }
  std::vector<float> broken = row;
  broken[3] = std::numeric_limits<float>::quiet_NaN();
  CHECK(contains(fault({.tensor = "s",
                        .file = write("nan.safetensors",
                                      test::SafetensorsBuilder().add_f32("s", {16}, broken))}),
                 "element 3 is not finite"));
  CHECK(contains(
      fault({.tensor = "s",
             .file = write("int.safetensors", test::SafetensorsBuilder().add(
                                                  "s", DType::i32, {16}, std::string(64, '\0')))}),
      "dtype I32 of s"));
  CHECK(
      contains(fault({.tensor = "s", .file = own + "/absent.safetensors"}), "absent.safetensors"));
}

}  // namespace
}  // namespace kvbench
