// kvbench: parses the command line, runs one subcommand, and turns errors into exit codes:
// 0 done, 1 a fault of kvbench, 2 configuration, 3 data, 4 device.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <new>

#include "apps/kvbench/commands.hpp"
#include "apps/kvbench/thread_waiting.hpp"
#include "core/error.hpp"
#include "report/environment.hpp"

namespace {

constexpr int kConfigExit = 2;
constexpr int kDeviceExit = 4;
constexpr int kInternalExit = 1;

int fail(int exit_code, const char* message) {
  fmt::print(stderr, "kvbench: error: {}\n", message);
  return exit_code;
}

int run(int argc, char** argv) {
  CLI::App app("kvbench measures what KV-cache eviction policies cost: perplexity, memory, speed",
               "kvbench");
  app.require_subcommand(1);
  app.set_version_flag("--version", kvbench::read_environment().kvbench_version);
  for (const kvbench::AddCommand add : kvbench::commands()) add(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    fail(kConfigExit, error.what());
    fmt::print(stderr, "Run with --help for the options.\n");
    return kConfigExit;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  kvbench::shorten_thread_waiting(argv);
  try {
    return run(argc, argv);
  } catch (const kvbench::Error& error) {
    return fail(error.exit_code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(kDeviceExit, "out of memory");
  } catch (const std::exception& error) {
    return fail(kInternalExit, error.what());
  }
}
