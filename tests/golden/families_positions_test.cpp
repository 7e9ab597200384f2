// Positions by place in the cache, shown by models of one layer: there, keys and values do not
// depend on what stands before them, so a query over an evicted cache sees what it would see in a
// text of the kept tokens alone. Holds for every kind of position and rotary scaling that does not
// look at the length of the text.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/golden/tiny_families.hpp"
#include "tests/golden/tiny_run.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::Ids;

// A tensor of any layer but the first.
bool is_of_later_layer(const std::string& name) {
  for (const char* part : {".layers.", ".h.", ".blocks."}) {
    const std::size_t at = name.find(part);
    if (at != std::string::npos) return name[at + std::string(part).size()] != '0';
  }
  return false;
}

// The first layer of a tiny model, as a model of its own.
void write_first_layer(const std::string& name, const test::TempDir& directory) {
  json config = test::tiny_config(name);
  for (const char* key : {"num_hidden_layers", "n_layers", "n_layer"}) {
    if (config.contains(key)) config[key] = 1;
  }
  auto tensors = test::tiny_tensors(name);
  std::erase_if(tensors,
                [](const test::OwnedTensor& tensor) { return is_of_later_layer(tensor.name); });
  test::write_config(directory, config);
  test::write_tensors(directory, tensors);
}

Trace run(const test::TempDir& directory, const std::string& policy, const Ids& ids) {
  TraceRequest request;
  request.model = directory.path().string();
  request.policy = policy;
  request.ids = ids;
  return run_trace(request);
}

}  // namespace

TEST_CASE("places in the cache: one layer sees the kept tokens as a text of their own") {
  Ids ids;
  for (int i = 0; i < 24; ++i) ids.push_back((i * i * 5 + 3 * i + 2) % 31 + 1);
  for (const std::string name :
       {"llama", "falcon_alibi", "mpt_h6", "llama_linear_type", "llama_rope_llama3_small",
        "llama_yarn", "cohere", "neox_parallel", "falcon_mqa"}) {
    CAPTURE(name);
    const test::TempDir directory;
    write_first_layer(name, directory);
    const Ids before(ids.begin(), ids.end() - 1);
    const Trace evicted = run(directory, "sink2+5", before);
    REQUIRE(evicted.kept.at(0).at(0) == Ids{0, 1, 18, 19, 20, 21, 22});
    Ids text;
    for (const std::int32_t place : evicted.kept[0][0]) {
      text.push_back(ids[static_cast<std::size_t>(place)]);
    }
    text.push_back(ids.back());
    const Trace expected = run(directory, "full", text);
    const std::vector<double> logits(expected.last_logits.begin(), expected.last_logits.end());
    const auto by_place = run(directory, "sink2+5", ids);
    CHECK(test::largest_difference(by_place.last_logits, logits) < 1e-5);
    const auto by_text = run(directory, "sink:sinks=2,recent=5,positions=original", ids);
    CHECK(test::largest_difference(by_text.last_logits, logits) > 1e-3);
  }
}

}  // namespace kvbench
