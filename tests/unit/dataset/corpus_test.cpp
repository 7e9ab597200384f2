// Corpora: what is read is the file's bytes, in a fixed order, or an error that says why.
#include "dataset/corpus.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstdlib>
#include <string>

#include "core/error.hpp"
#include "dataset/manifest.hpp"
#include "dataset/registry.hpp"
#include "io/sha256.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench {
namespace {

// Sets an environment variable for one scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    const char* before = std::getenv(name);
    if (before != nullptr) before_ = before;
    had_ = before != nullptr;
    ::setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { had_ ? ::setenv(name_, before_.c_str(), 1) : ::unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool had_ = false;
};

std::string manifest_text(const std::string& name, const std::string& files) {
  return fmt::format(R"({{"name":"{}","format":"text","path":"books/{}","licence":"public domain",)"
                     R"("split":"test","files":[{}]}})",
                     name, name, files);
}

std::string pinned(const std::string& file, const std::string& text) {
  return fmt::format(R"({{"name":"{}","bytes":{},"sha256":"{}"}})", file, text.size(),
                     sha256_hex(text));
}

TEST_CASE("corpus: a text file is its bytes, whatever they are") {
  const test::TempDir folder;
  const std::string bytes("\xEF\xBB\xBFx\r\ny\r\n\r\nz\0\xff", 14);
  const Corpus corpus = open_corpus(folder.write("book.txt", bytes).string());
  REQUIRE(corpus.documents.size() == 1);
  CHECK(corpus.documents[0].text == bytes);
  CHECK(corpus.documents[0].name == "book.txt");
  CHECK(corpus.documents[0].had_bom);
  CHECK(corpus.format == "text");
  CHECK(corpus.name == "book");
  CHECK(corpus.bytes == 14);
  CHECK(corpus.content_sha256 == sha256_hex(bytes));
}

TEST_CASE("corpus: line ends and the byte-order mark change only when asked") {
  const test::TempDir folder;
  const std::string path = folder.write("a.txt", "\xEF\xBB\xBFone\r\ntwo\rthree\n\r\n\r").string();
  const Corpus lf = open_corpus(path, {.newline = Newline::lf});
  CHECK(lf.documents[0].text == "\xEF\xBB\xBFone\ntwo\nthree\n\n\n");
  const Corpus both = open_corpus(path, {.newline = Newline::lf, .strip_bom = true});
  CHECK(both.documents[0].text == "one\ntwo\nthree\n\n\n");
  CHECK(both.documents[0].had_bom);
  CHECK(both.bytes == 16);
  CHECK(both.content_sha256 == sha256_hex("one\ntwo\nthree\n\n\n"));
  CHECK(both.options.newline == Newline::lf);
  CHECK(parse_newline("lf") == Newline::lf);
  CHECK_THROWS_AS(parse_newline("crlf"), ConfigError);
}

TEST_CASE("corpus: a folder is its .txt files in byte order of their names") {
  const test::TempDir folder;
  for (const char* name : {"books/9.txt", "books/10.txt", "books/Z.txt", "books/a.txt"}) {
    folder.write(name, name);
  }
  folder.write("books/notes.md", "no");
  folder.write("books/deeper/b.txt", "no");
  const std::string path = (folder.path() / "books").string();
  const Corpus corpus = open_corpus(path);
  REQUIRE(corpus.documents.size() == 4);
  CHECK(corpus.documents[0].name == "10.txt");
  CHECK(corpus.documents[1].name == "9.txt");
  CHECK(corpus.documents[2].name == "Z.txt");
  CHECK(corpus.documents[3].name == "a.txt");
  CHECK(open_corpus(path + "/").content_sha256 == corpus.content_sha256);
  CHECK(open_corpus(path, {.max_documents = 2}).documents.size() == 2);
  CHECK_THROWS_AS(open_corpus(path, {.max_documents = -1}), ConfigError);
}

TEST_CASE("corpus: the hash is of contents, with document ends, not of names or places") {
  const test::TempDir folder;
  folder.write("one/a.txt", "ab");
  folder.write("one/b.txt", "c");
  folder.write("two/x.txt", "ab");
  folder.write("two/y.txt", "c");
  folder.write("three/a.txt", "a");
  folder.write("three/b.txt", "bc");
  const auto hash = [&](const char* name) {
    return open_corpus((folder.path() / name).string()).content_sha256;
  };
  CHECK(hash("one") == hash("two"));
  CHECK(hash("one") != hash("three"));
  CHECK(hash("one") == sha256_hex(sha256_hex("ab") + "\n" + sha256_hex("c") + "\n"));
}

TEST_CASE("corpus: jsonl takes the member text of each line") {
  const test::TempDir folder;
  const std::string path =
      folder
          .write("set.jsonl",
                 "{\"text\":\"a\\r\\nb\",\"id\":7}\r\n\n{\"text\":\"\"}\n{\"text\":\"c\"}")
          .string();
  const Corpus corpus = open_corpus(path);
  REQUIRE(corpus.documents.size() == 3);
  CHECK(corpus.documents[0].text == "a\r\nb");
  CHECK(corpus.documents[1].text == "");
  CHECK(corpus.documents[2].name == "line 4");
  CHECK(open_corpus(path, {.max_documents = 1}).documents.size() == 1);

  for (const char* bad : {"{\"text\":\"a\"}\n{\"txt\":\"b\"}\n", "{\"text\":\"a\"}\n{\"text\":8}",
                          "{\"text\":\"a\"}\n[1]", "{\"text\":\"a\"}\n{\"text\":\"b\""}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH_AS(open_corpus(folder.write("bad.jsonl", bad).string()),
                         doctest::Contains("bad.jsonl, line 2"), DataError);
  }
  CHECK_THROWS_AS(open_corpus(folder.write("none.jsonl", "\n").string()), DataError);
}

TEST_CASE("corpus: a manifest pins its files, in its own order") {
  const test::TempDir folder;
  const ScopedVariable cache("KVBENCH_CACHE", (folder.path() / "cache").string());
  const ScopedVariable datasets("KVBENCH_DATASETS", (folder.path() / "sets").string());
  folder.write("cache/books/mine/b.txt", "first");
  folder.write("cache/books/mine/a.txt", "second");
  const std::string files = pinned("b.txt", "first") + "," + pinned("a.txt", "second");
  folder.write("sets/mine.json", manifest_text("mine", files));

  const Corpus corpus = open_corpus("mine");
  REQUIRE(corpus.documents.size() == 2);
  CHECK(corpus.documents[0].text == "first");
  CHECK(corpus.name == "mine");
  CHECK(corpus.split == "test");
  CHECK(corpus.licence == "public domain");
  CHECK(corpus.format == "manifest");
  CHECK(open_corpus((folder.path() / "sets/mine.json").string()).content_sha256 ==
        corpus.content_sha256);

  SUBCASE("a changed file") {
    folder.write("cache/books/mine/a.txt", "Second");
    CHECK_THROWS_WITH_AS(open_corpus("mine"), doctest::Contains("sha256"), DataError);
    CHECK(open_corpus("mine", {.max_documents = 1}).documents.size() == 1);
  }
  SUBCASE("a shortened file") {
    folder.write("cache/books/mine/a.txt", "sec");
    CHECK_THROWS_WITH_AS(open_corpus("mine"), doctest::Contains("3 bytes"), DataError);
  }
  SUBCASE("a missing file") {
    std::filesystem::remove(folder.path() / "cache/books/mine/a.txt");
    CHECK_THROWS_WITH_AS(open_corpus("mine"), doctest::Contains("KVBENCH_CACHE"), DataError);
  }
  SUBCASE("an unknown name lists the known ones") {
    CHECK_THROWS_WITH_AS(open_corpus("yours"), doctest::Contains("manifests here: mine"),
                         ConfigError);
  }
}

TEST_CASE("corpus: a manifest cannot lead out of the cache, nor stand for a checkpoint") {
  const test::TempDir folder;
  const ScopedVariable cache("KVBENCH_CACHE", (folder.path() / "cache").string());
  folder.write("secret.txt", "s");
  folder.write("cache/books/x/ok.txt", "s");
  for (const char* name : {"../../../secret.txt", "/etc/hostname", ""}) {
    CAPTURE(name);
    const auto path = folder.write("x.json", manifest_text("x", pinned(name, "s")));
    CHECK_THROWS_AS(open_corpus(path.string()), DataError);
  }
  const auto checkpoint =
      folder.write("c.json", R"({"name":"c","format":"checkpoint","path":"m","files":[]})");
  CHECK_THROWS_WITH_AS(open_corpus(checkpoint.string()), doctest::Contains("format"), DataError);
  const auto no_files = folder.write("n.json", R"({"name":"n","format":"text","path":"m"})");
  CHECK_THROWS_WITH_AS(open_corpus(no_files.string()), doctest::Contains("files"), DataError);
}

TEST_CASE("corpus: nothing there is an error") {
  const test::TempDir folder;
  std::filesystem::create_directory(folder.path() / "empty");
  CHECK_THROWS_AS(open_corpus((folder.path() / "empty").string()), DataError);
  CHECK_THROWS_AS(open_corpus((folder.path() / "no-such.txt").string()), ConfigError);
  CHECK_THROWS_AS(open_corpus(""), ConfigError);
  CHECK_THROWS_AS(open_corpus("/dev/null"), DataError);
}

TEST_CASE("corpus: every format has a name and a summary") {
  CHECK(corpus_formats().size() >= 3);
  for (const CorpusFormat& format : corpus_formats()) {
    CHECK(std::string(format.name) != "");
    CHECK(std::string(format.summary) != "");
  }
}

}  // namespace
}  // namespace kvbench
