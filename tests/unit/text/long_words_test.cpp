// Texts without a place to split: time must grow in step with length, and the stack must not.
#include <doctest/doctest.h>
#include <pthread.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tests/support/cpu_time.hpp"
#include "tests/unit/text/small_tokenizers.hpp"
#include "text/tokenizer.hpp"

namespace kvbench {
namespace {

using test::load_small;

std::string repeated(const std::string& part, std::size_t count) {
  std::string text;
  text.reserve(part.size() * count);
  for (std::size_t i = 0; i < count; ++i) text += part;
  return text;
}

double seconds_to_encode(const Tokenizer& tokenizer, const std::string& text) {
  const double start = test::thread_cpu_seconds();
  tokenizer.encode(text);
  return test::thread_cpu_seconds() - start;
}

struct Job {
  const Tokenizer* tokenizer;
  std::size_t id_count;
};

void* encode_runs(void* argument) {
  auto* job = static_cast<Job*>(argument);
  for (const std::string part : {" ", "a", "\n", "日", "."}) {
    job->id_count += job->tokenizer->encode(repeated(part, 1'000'000)).size();
  }
  return nullptr;
}

TEST_CASE("one word of 100,000 letters and more") {
  const auto tokenizer = load_small("llama3_like");
  CHECK(tokenizer->encode(repeated("a", 100'000)).size() == 100'000);
  CHECK(tokenizer->encode(repeated("us", 60'000)).size() == 120'000);
  CHECK(tokenizer->encode(repeated("a", 1'000'000)).size() == 1'000'000);
}

// Words that merge a lot, so that the heap works: tenfold length in less than thirtyfold time.
TEST_CASE("time for a word grows in step with its length") {
  for (const std::string name :
       {"llama3_like", "llama2_like_legacy", "tekken_like", "sentencepiece_byte_fallback"}) {
    const auto tokenizer = load_small(name);
    for (const std::string part : {" ", "inthe", "_", "in the "}) {
      CAPTURE(part);
      seconds_to_encode(*tokenizer, repeated(part, 1000));
      const double shorter = seconds_to_encode(*tokenizer, repeated(part, 40'000));
      const double longer = seconds_to_encode(*tokenizer, repeated(part, 400'000));
      CHECK(longer < 30 * shorter + 0.2);
    }
  }
}

TEST_CASE("a million combining marks are put in order in time") {
  const auto tokenizer = load_small("qwen2_like");
  CHECK(seconds_to_encode(*tokenizer, repeated("\u0301\u0316", 500'000)) < 20);
}

TEST_CASE("runs of a million characters of one class need little stack") {
  const auto tokenizer = load_small("llama3_like");
  Job job{tokenizer.get(), 0};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::size_t{256} << 10);
  pthread_t thread{};
  REQUIRE(pthread_create(&thread, &attributes, &encode_runs, &job) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  CHECK(job.id_count > 3'000'000);
}

// A word longer than 64 bytes is cut where no merge reaches across, one of 128 is not remembered:
// neither may show in the ids.
TEST_CASE("ids do not depend on where long words are cut") {
  const auto tokenizer = load_small("llama2_like_never");
  std::vector<std::int32_t> parts;
  std::string text;
  for (int i = 0; i < 40; ++i) {
    for (const std::string word : {"\nThe", "\nquick", "\n 日本"}) {
      const auto ids = tokenizer->encode(word);
      parts.insert(parts.end(), ids.begin(), ids.end());
      text += word;
      CHECK(tokenizer->encode(text) == parts);
    }
  }
}

}  // namespace
}  // namespace kvbench
