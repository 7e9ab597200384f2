// A corpus: named documents of text, in a fixed order, with a hash of what was read.
// Text is read in binary and left alone: line ends, byte-order marks and invalid UTF-8 reach the
// tokenizer as they are, unless CorpusOptions says otherwise. Records say which.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvbench {

enum class Newline {
  keep,  // bytes as they are
  lf,    // CRLF and lone CR become LF, as Python's text mode (and so the datasets library) does
};
const char* newline_name(Newline newline);
// Throws ConfigError for anything but "keep" and "lf".
Newline parse_newline(const std::string& text);

struct CorpusOptions {
  Newline newline = Newline::keep;
  bool strip_bom = false;
  std::int64_t max_documents = 0;  // 0: all; otherwise the first so many
};

struct Document {
  std::string name;
  std::string text;
  bool had_bom =
      false;  // a UTF-8 byte-order mark stood at the start (still in text unless stripped)
};

struct Corpus {
  std::string name;
  std::string path;     // where it was found, absolute
  std::string format;   // row of the format registry
  std::string split;    // "test" etc. where a manifest says so
  std::string licence;  // where a manifest says so
  CorpusOptions options;
  // SHA-256, hex, of the text as given to the tokenizer: of the document's bytes where there is
  // one, else of the lines "<sha256 of document>\n" in order. File names and places do not count.
  std::string content_sha256;
  std::int64_t bytes = 0;
  std::vector<Document> documents;
};

// Opens a path (a text file, a folder of .txt files, a .jsonl, a manifest .json) or the bare name
// of a manifest. Throws ConfigError when there is no such thing, DataError when it cannot be read.
Corpus open_corpus(const std::string& spec, const CorpusOptions& options = {});

}  // namespace kvbench
