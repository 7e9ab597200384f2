// Options of `kvbench inspect`; the work is done in inspect_report.
#include "apps/kvbench/inspect_command.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/kvbench/inspect_report.hpp"
#include "apps/kvbench/options.hpp"
#include "core/error.hpp"

namespace kvbench {
namespace {

struct InspectOptions {
  SettingSet settings;
  std::string path;
  std::string model;
  InspectRequest request;
  bool json = false;
};

void run(InspectOptions& options) {
  options.request.path = options.path.empty() ? options.model : options.path;
  const nlohmann::ordered_json report = inspect_model(options.request);
  // A path need not be UTF-8; a JSON document must be.
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  fmt::print("{}",
             options.json ? report.dump(1, ' ', false, replace) + "\n" : inspect_text(report));
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "inspect", "Show a model's resolved configuration, tensors, parameters and KV size");
  const auto options = std::make_shared<InspectOptions>();
  SettingSet& settings = options->settings;
  settings.text("path", options->path, "Model directory, or one .safetensors file");
  settings.text("model", options->model, "Model directory (the same as PATH)");
  settings.flag("rope", options->request.rope, "Print the rotary frequencies");
  settings.integer("length", options->request.rope_length, 0,
                   std::numeric_limits<std::int32_t>::max(),
                   "Tokens of text that --rope is for (0: the model's context length)");
  settings.text("sink_tensor", options->request.sink_tensor,
                "Tensor of the checkpoint with learned sinks");
  settings.flag("values", options->request.values,
                "Print the values of tensors of at most 32 elements");
  settings.flag("json", options->json, "Print one JSON document");
  add_settings(*command, settings, "path");
  command->footer(
      "Examples:\n"
      "  kvbench inspect models/llama --rope\n"
      "  kvbench inspect models/llama/model.safetensors --values --json");
  command->callback([options] {
    if (options->path.empty() == options->model.empty()) {
      config_error("give one model directory, as PATH or as --model");
    }
    run(*options);
  });
}

}  // namespace kvbench
