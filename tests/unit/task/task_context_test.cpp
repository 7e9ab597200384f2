// What the runs of a sweep share: texts are tokenized once and cut to any length, and weights are
// there only where something is run.
#include "task/task_context.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "report/record_store.hpp"
#include "task/ppl.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

std::filesystem::path tokenizer_folder() {
  return std::filesystem::path(KVBENCH_SOURCE_DIR) / "tests/golden/tokenizers/llama3_like";
}

bool same(const TokenSource& a, const TokenSource& b) {
  bool equal = a.documents.size() == b.documents.size() && a.bos == b.bos && a.name == b.name &&
               a.path == b.path && a.sha256 == b.sha256 && a.bytes == b.bytes &&
               a.replaced_utf8 == b.replaced_utf8 && a.warnings == b.warnings;
  for (std::size_t i = 0; equal && i < a.documents.size(); ++i) {
    equal = a.documents[i].name == b.documents[i].name && a.documents[i].ids == b.documents[i].ids;
  }
  return equal;
}

TEST_CASE("tokens of a context are those read afresh, in whatever order lengths are asked for") {
  const test::TempDir texts;
  texts.write("a.txt", "\xEF\xBB\xBFThe fox jumps.\n");
  texts.write("b.txt", "Do you eat?\nI am \xFF here.\n");
  texts.write("c.txt", "Never again.");
  TaskContext context;
  TokenRequest request;
  request.data = texts.path().string();
  request.invalid_utf8 = InvalidUtf8::replace;
  for (const char* bos : {"none", "auto", "7"}) {
    request.bos = bos;
    request.max_tokens = 0;
    const std::int64_t all = read_tokens(request, tokenizer_folder()).total_tokens();
    REQUIRE(all > 20);
    for (const std::int64_t tokens :
         {std::int64_t{3}, all, std::int64_t{0}, all / 2, std::int64_t{1}, all - 1}) {
      CAPTURE(bos);
      CAPTURE(tokens);
      request.max_tokens = tokens;
      const TokenSource shared = context.tokens(request, tokenizer_folder());
      CHECK(same(shared, read_tokens(request, tokenizer_folder())));
      CHECK(shared.total_tokens() == (tokens == 0 ? all : tokens));
    }
  }
}

TEST_CASE("a text that has changed on disk is not read again in one context") {
  const test::TempDir texts;
  const auto path = texts.write("a.txt", "The fox jumps.\n");
  TaskContext context;
  TokenRequest request;
  request.data = path.string();
  const TokenSource first = context.tokens(request, tokenizer_folder());
  texts.write("a.txt", "Another text.\n");
  CHECK(same(first, context.tokens(request, tokenizer_folder())));
  CHECK(!same(first, TaskContext().tokens(request, tokenizer_folder())));
}

TEST_CASE("weights are loaded for a run, and not to see that it was done") {
  PplRequest request;
  request.model = test::tiny_model("llama").string();
  request.backend = "cpu";
  request.tokens.ids = {{1, 5, 9, 2, 7, 3, 11, 4, 30, 17, 23, 8}};
  request.policies = {"full", "window4"};
  const test::TempDir folder;
  RecordStore store(folder.path());
  TaskContext first;
  first.quiet = true;
  first.on_record = [&](const RunRecord& record) { store.write(record); };
  CHECK(run_ppl(request, first).size() == 2);
  CHECK(first.open(request).model->has_weights());

  const IndexContents done = store.read();
  TaskContext second;
  second.quiet = true;
  second.done = &done;
  CHECK(run_ppl(request, second).empty());
  CHECK_FALSE(second.open(request).model->has_weights());
  request.policies.push_back("window5");
  CHECK(run_ppl(request, second).size() == 1);
  CHECK(second.open(request).model->has_weights());
}

}  // namespace
}  // namespace kvbench
