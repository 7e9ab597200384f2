// The table of corpus formats. Order matters: the text format takes every file left over.
#include "dataset/registry.hpp"

#include <array>

#include "dataset/jsonl.hpp"
#include "dataset/manifest.hpp"
#include "dataset/text_files.hpp"

namespace kvbench {

std::span<const CorpusFormat> corpus_formats() {
  static constexpr std::array kFormats{
      CorpusFormat{"jsonl", "a .jsonl: one JSON object a line, its member \"text\" a document",
                   is_jsonl_corpus, open_jsonl_corpus},
      CorpusFormat{"manifest", "a .json of datasets/: pinned files in the cache, in its order",
                   is_manifest, open_manifest_corpus},
      CorpusFormat{"text", "a text file, or a folder of .txt files in order of their names",
                   is_text_corpus, open_text_corpus},
  };
  return kFormats;
}

}  // namespace kvbench
