// `kvbench tokenize`: ids of a text, or the text of ids, with a model directory's tokenizer.
#pragma once

#include <CLI/CLI.hpp>

namespace kvbench {

void add_tokenize_command(CLI::App& app);

}  // namespace kvbench
