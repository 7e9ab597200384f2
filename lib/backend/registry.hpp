// The backends this build has, by name.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "backend/backend.hpp"

namespace kvbench {

struct BackendSpec {
  std::string_view name;
  std::string_view summary;
  // Why it cannot run on this machine, or empty.
  std::string_view (*obstacle)();
  // `devices` are numbers of this backend's devices; empty: its first.
  std::unique_ptr<Backend> (*make)(int threads, std::span<const int> devices);
};

std::span<const BackendSpec> backends();

// `name` is a backend's name, or "auto" for the first one that can run here. ConfigError for an
// unknown name, DeviceError for one that cannot run, or that lacks one of the devices. Several
// devices share the layers of a model.
std::unique_ptr<Backend> make_backend(std::string_view name, int threads,
                                      std::span<const int> devices = {});

}  // namespace kvbench
