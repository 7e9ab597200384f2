// Options of `kvbench ppl`: perplexity of one text under several policies.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>

#include "apps/kvbench/commands.hpp"
#include "apps/kvbench/options.hpp"
#include "apps/kvbench/run_options.hpp"
#include "config/parse_number.hpp"
#include "core/error.hpp"
#include "report/console_reporter.hpp"
#include "report/csv_reporter.hpp"
#include "report/json_reporter.hpp"
#include "report/record_store.hpp"
#include "task/ppl.hpp"

namespace kvbench {
namespace {

struct PplOptions {
  RunOptions run;
  PplRequest request;
  std::vector<std::string> ids;
  std::string id_file;
  std::string policy_file;
  std::string documents = "reset";
  std::string specials = "text";
  std::string newline = "keep";
  std::string invalid_utf8 = "error";
  std::int64_t prefix_id = -1;
  std::string out;
  bool json = false;
  bool csv = false;
};

// One policy per line; blank lines and lines that begin with # are skipped.
void read_policy_file(const std::string& path, std::vector<std::string>& policies) {
  std::ifstream file(path);
  if (!file) config_error("{}: cannot be read", path);
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !line.starts_with('#')) policies.push_back(line);
  }
}

PplRequest resolve(const PplOptions& options) {
  PplRequest request = options.request;
  if (!options.policy_file.empty()) read_policy_file(options.policy_file, request.policies);
  static_cast<RunSettings&>(request) = options.run.settings();
  request.documents = options.documents == "carry" ? DocumentMode::carry : DocumentMode::reset;
  request.tokens.specials =
      options.specials == "parse" ? SpecialTokens::parse : SpecialTokens::text;
  request.tokens.invalid_utf8 =
      options.invalid_utf8 == "replace" ? InvalidUtf8::replace : InvalidUtf8::error;
  request.tokens.corpus.newline = parse_newline(options.newline);
  for (const std::string& list : options.ids) {
    request.tokens.ids.push_back(
        to_ids(parse_int_list(list, 0, std::numeric_limits<std::int32_t>::max(), "--ids")));
  }
  if (!options.id_file.empty()) request.tokens.ids.push_back(read_id_file(options.id_file));
  if (!request.tokens.data.empty() && !request.tokens.ids.empty()) {
    config_error("give either --data or --ids, not both");
  }
  if (options.prefix_id >= 0) {
    request.protocol_options.prefix_id = static_cast<std::int32_t>(options.prefix_id);
    request.protocol_options.force_prefix = true;
  } else if (request.protocol == "rolling") {
    config_error("protocol rolling: --prefix-id is missing (the id that stands before the text)");
  }
  return request;
}

void run(const PplOptions& options) {
  const PplRequest request = resolve(options);
  std::optional<RecordStore> store;
  if (!options.out.empty()) {
    store.emplace(options.out);
    for (const std::string& warning : store->warnings()) {
      fmt::print(stderr, "warning: {}\n", warning);
    }
  }
  const std::vector<RunRecord> records = run_ppl(request, [&](const RunRecord& record) {
    if (store) store->write(record);
  });
  if (options.json) {
    write_json_rows(std::cout, records);
  } else if (options.csv) {
    write_csv(std::cout, records);
  } else {
    write_table(std::cout, ppl_columns(), records);
  }
  std::cout.flush();
  for (const RunRecord& record : records) {
    if (!record.ok) throw Error(record.exit_code, record.policy + ": " + record.reason);
  }
}

void add_text_options(CLI::App& command, PplOptions& options) {
  TokenRequest& tokens = options.request.tokens;
  add_text(command, "--data", tokens.data,
           "Text: a file, a folder of .txt, a .jsonl, a manifest, or a manifest's name");
  command.add_option("--ids", options.ids, "Token ids in place of text, one list per document")
      ->type_name("ID,ID,...")
      ->expected(1)
      ->take_all();
  add_text(command, "--ids-file", options.id_file, "One document of token ids from a file");
  add_int(command, "--tokens", tokens.max_tokens, 0, INT64_C(1) << 40,
          "Use the first so many tokens (0: all)");
  add_text(command, "--bos", tokens.bos,
           "First token of each document: none, auto (what the tokenizer adds) or an id");
  add_choice(command, "--specials", options.specials, {"text", "parse"},
             "Special tokens spelled out in the text: plain text, or parsed to their ids");
  add_choice(command, "--newline", options.newline, {"keep", "lf"},
             "Line ends: as they are, or CRLF read as LF");
  add_choice(command, "--invalid-utf8", options.invalid_utf8, {"error", "replace"},
             "Bytes that are no UTF-8");
  command.add_flag("--strip-bom", tokens.corpus.strip_bom, "Drop a leading byte-order mark");
}

}  // namespace

void add_ppl_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "ppl", "Perplexity of a text under each policy, the evicted cache feeding every prediction");
  const auto options = std::make_shared<PplOptions>();
  add_run_options(*command, options->run);
  command
      ->add_option("--policy", options->request.policies,
                   "Policy, as in full, window1024, sink4+1020; repeat it for one row each")
      ->type_name("POLICY")
      ->expected(1)
      ->take_all();
  add_text(*command, "--policies-file", options->policy_file, "File with one policy per line");
  add_text_options(*command, *options);
  std::vector<std::string> protocols;
  for (const PplProtocol& protocol : ppl_protocols()) protocols.emplace_back(protocol.name);
  add_choice(*command, "--protocol", options->request.protocol, protocols,
             "How the text is cut into stretches that are run and scored");
  ProtocolOptions& cut = options->request.protocol_options;
  add_int(*command, "--window", cut.window, 0, INT64_C(1) << 40, "Tokens per window");
  add_int(*command, "--stride", cut.stride, 0, INT64_C(1) << 40,
          "Tokens from one window to the next (0: a whole window)");
  add_int(*command, "--prompt", cut.prompt, 0, INT64_C(1) << 40,
          "Protocol continue: tokens of each prompt");
  add_int(*command, "--score", cut.score, 0, INT64_C(1) << 40,
          "Protocol continue: tokens scored after each prompt");
  add_int(*command, "--prefix-id", options->prefix_id, -1, INT64_C(0x7fffffff),
          "Id before the text (rolling) or over each chunk's first id (llamacpp); -1: none");
  add_choice(*command, "--documents", options->documents, {"reset", "carry"},
             "An empty cache for each document, or one cache over all");
  command->add_flag("--strict", options->request.strict,
                    "A policy that evicted nothing is an error");
  add_text(*command, "--out", options->out, "Folder for the records");
  command->add_flag("--json", options->json, "Print the records as a JSON array");
  command->add_flag("--csv", options->csv, "Print the records as CSV")->excludes("--json");
  command->add_flag("--quiet", options->request.quiet, "No progress line");
  command->footer(
      "Examples:\n"
      "  kvbench ppl --model llama-2-7b --data pg19-test --tokens 65536 --documents carry \\\n"
      "    --policy full --policy window1024 --policy sink4+1020 --dtype bf16 --out results/pg19\n"
      "  kvbench ppl --model llama-2-7b --data novel.txt --policy sink4+252 --json\n"
      "  kvbench ppl --model llama-2-7b --data novel.txt --protocol continue --prompt 2048 \\\n"
      "    --score 256 --policy full --policy h2o:heavy=256,recent=256");
  command->callback([options] { run(*options); });
}

}  // namespace kvbench
