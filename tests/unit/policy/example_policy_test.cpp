// The example of lib/policy/README.md does what it says.
#include <doctest/doctest.h>

#include "policy/registry.hpp"
#include "tests/unit/policy/fake_view.hpp"

namespace kvbench {

PolicyInfo every_other_policy();

namespace {

TEST_CASE("the example keeps every second entry, newest first") {
  const PolicyInfo info = every_other_policy();
  const PolicyOptions options(parse_policy("every_other:capacity=3"), info.name, info.options);
  const auto policy = info.make(options);
  test::FakeView view(10, 2, 1, 4);
  view.capacity = policy->traits().capacity;
  KeepList keep(2);
  policy->select(view, keep);
  CHECK(keep[0] == std::vector<std::int32_t>{5, 7, 9});
  CHECK(keep[1] == keep[0]);
}

}  // namespace
}  // namespace kvbench
