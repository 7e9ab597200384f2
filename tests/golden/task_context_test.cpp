// What runs share: the model of equal settings is loaded once, and a finished run is not run again.
#include "task/task_context.hpp"

#include <doctest/doctest.h>

#include "report/record_store.hpp"
#include "task/ppl.hpp"
#include "tests/golden/tiny_run.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench {
namespace {

PplRequest request_for(std::vector<std::string> policies) {
  PplRequest request;
  request.model = test::tiny_model("llama").string();
  request.policies = std::move(policies);
  request.tokens.ids = {{1, 5, 9, 2, 7, 3, 8, 4, 6, 1, 2, 3}};
  return request;
}

TEST_CASE("task context: equal settings share a model, others replace it") {
  TaskContext context;
  PplRequest request = request_for({"full"});
  const std::string hash = context.load(request).model->content_hash();
  const LayerWeights* weights = context.load(request).model->weights().layers.data();
  request.seed = 7;
  CHECK(context.load(request).model->weights().layers.data() == weights);
  request.model = test::tiny_model("qwen3").string();
  CHECK(context.load(request).model->content_hash() != hash);
}

TEST_CASE("task context: what is done is left out, and full's number is still compared with") {
  const test::TempDir folder;
  RecordStore store(folder.path());
  TaskContext context;
  context.quiet = true;
  context.on_record = [&](const RunRecord& record) { store.write(record); };
  CHECK(run_ppl(request_for({"full", "sink1+3"}), context).size() == 2);

  const IndexContents done = store.read();
  context.done = &done;
  const auto records = run_ppl(request_for({"full", "sink1+3", "window4"}), context);
  REQUIRE(records.size() == 1);
  CHECK(records.front().policy == "window4");
  CHECK(find_metric(records.front(), "ratio_to_full")->value.has_value());
  CHECK(store.read().entries.size() == 3);
}

}  // namespace
}  // namespace kvbench
