// Definitions of jinja_renderer.hpp.
#include "text/jinja_renderer.hpp"

#include <fmt/core.h>

#include <vector>

#include "core/printable.hpp"
#include "text/jinja_evaluator.hpp"
#include "text/jinja_strings.hpp"

namespace kvbench {
namespace {

using Kind = JinjaStatement::Kind;

class Renderer {
 public:
  Renderer(const JinjaDict& given, const std::string& source) : evaluator_(given, source) {}

  void run(const JinjaBody& body, std::string& out);

 private:
  void run(const JinjaStatement& statement, std::string& out);
  void run_loop(const JinjaStatement& loop, std::string& out);
  void run_set(const JinjaStatement& set);
  JinjaList items_of(const JinjaStatement& loop);
  void assign(const JinjaStatement& statement, JinjaValue value);

  JinjaEvaluator evaluator_;
  JinjaBudget& budget_ = evaluator_.budget();
  std::vector<JinjaDict>& scopes_ = evaluator_.scopes();  // the innermost last
};

void Renderer::run(const JinjaBody& body, std::string& out) {
  for (const JinjaStatement& statement : body) {
    budget_.spend(1, statement.place);
    run(statement, out);
    if (out.size() > kMostJinjaBytes) budget_.fail(statement.place, "the text grows too large");
  }
}

void Renderer::run(const JinjaStatement& statement, std::string& out) {
  switch (statement.kind) {
    case Kind::text:
      out += statement.text;
      return;
    case Kind::print:
      out += evaluator_.printed(*statement.expression, evaluator_.value(*statement.expression));
      return;
    case Kind::choice:
      for (const JinjaBranch& branch : statement.branches) {
        if (evaluator_.value(*branch.condition).truth()) return run(branch.body, out);
      }
      return run(statement.otherwise, out);
    case Kind::loop:
      return run_loop(statement, out);
    case Kind::set:
      return run_set(statement);
    case Kind::set_block: {
      std::string text;
      run(statement.body, text);
      return assign(statement, budget_.checked(std::move(text), statement.place));
    }
    case Kind::group:
      return run(statement.body, out);
  }
}

void Renderer::assign(const JinjaStatement& statement, JinjaValue assigned) {
  if (!statement.of_namespace) {
    set_member(scopes_.back(), statement.names.front(), std::move(assigned));
    return;
  }
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    for (auto& [known, held] : *scope) {
      if (known != statement.names[0]) continue;
      if (held.names() == nullptr) break;
      if (assigned.names() != nullptr) break;
      set_member(*held.names(), statement.names[1], std::move(assigned));
      return;
    }
  }
  budget_.fail(statement.place,
               fmt::format("'{}' is no namespace, or is given one", printable(statement.names[0])));
}

void Renderer::run_set(const JinjaStatement& set) {
  const JinjaValue assigned = evaluator_.value(*set.expression);
  if (set.of_namespace || set.names.size() == 1) return assign(set, assigned);
  const JinjaList* parts = assigned.list();
  if (parts == nullptr || parts->size() != set.names.size()) {
    budget_.fail(set.place, "as many values as names are needed");
  }
  for (std::size_t i = 0; i < parts->size(); ++i) {
    set_member(scopes_.back(), set.names[i], (*parts)[i]);
  }
}

// What the loop goes over, its own condition applied.
JinjaList Renderer::items_of(const JinjaStatement& loop) {
  const JinjaValue over = evaluator_.value(*loop.expression);
  JinjaList items;
  if (over.list() != nullptr) {
    items = *over.list();
  } else if (over.dict() != nullptr) {
    for (const auto& [key, unused] : *over.dict()) items.emplace_back(key);
  } else if (over.text() != nullptr) {
    for (const std::string_view part : characters(*over.text())) {
      items.emplace_back(std::string(part));
    }
  } else if (!over.is_undefined()) {
    budget_.fail(loop.place, fmt::format("a loop over {}", over.kind()));
  }
  budget_.spend(std::ssize(items), loop.place);
  return items;
}

void Renderer::run_loop(const JinjaStatement& loop, std::string& out) {
  const auto bind = [&](const JinjaValue& item) {
    scopes_.back().clear();
    if (loop.names.size() == 1) {
      set_member(scopes_.back(), loop.names.front(), item);
      return;
    }
    const JinjaList* parts = item.list();
    if (parts == nullptr || parts->size() != loop.names.size()) {
      budget_.fail(loop.place, "a loop needs as many values as names");
    }
    for (std::size_t i = 0; i < parts->size(); ++i) {
      set_member(scopes_.back(), loop.names[i], (*parts)[i]);
    }
  };
  JinjaList items = items_of(loop);
  scopes_.emplace_back();
  if (loop.condition != nullptr) {
    JinjaList left;
    for (const JinjaValue& item : items) {
      bind(item);
      if (evaluator_.value(*loop.condition).truth()) left.push_back(item);
    }
    items = std::move(left);
  }
  const std::int64_t n = std::ssize(items);
  for (std::int64_t i = 0; i < n; ++i) {
    bind(items[static_cast<std::size_t>(i)]);
    JinjaDict about{{"index", i + 1},        {"index0", i}, {"first", i == 0},
                    {"last", i + 1 == n},    {"length", n}, {"revindex", n - i},
                    {"revindex0", n - i - 1}};
    if (i > 0) about.emplace_back("previtem", items[static_cast<std::size_t>(i - 1)]);
    if (i + 1 < n) about.emplace_back("nextitem", items[static_cast<std::size_t>(i + 1)]);
    set_member(scopes_.back(), "loop", budget_.checked(std::move(about), loop.place));
    run(loop.body, out);
  }
  scopes_.pop_back();
  if (n == 0) run(loop.otherwise, out);
}

}  // namespace

std::string render_jinja(const JinjaBody& body, const JinjaDict& given, const std::string& source) {
  std::string out;
  Renderer(given, source).run(body, out);
  return out;
}

}  // namespace kvbench
