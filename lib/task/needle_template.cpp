// The templates. Every needle is a paragraph of its own, so that it can stand anywhere.
#include "task/needle_template.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "core/nearest_name.hpp"
#include "metric/answer_match.hpp"

namespace kvbench {
namespace {

constexpr std::uint64_t kSmallestNumber = 10000;  // five digits
constexpr std::uint64_t kNumbers = 90000;
constexpr double kNumberChance = 1.0 / static_cast<double>(kNumbers);
constexpr std::size_t kKeys = 4;
constexpr std::size_t kValues = 3;

constexpr std::array<const char*, 24> kPlaces{
    "Lisbon", "Oslo",  "Nairobi", "Quito", "Hanoi",  "Tallinn", "Dakar", "Perth",
    "Kyoto",  "Tunis", "Bergen",  "Lima",  "Ankara", "Zagreb",  "Accra", "Turin",
    "Denver", "Minsk", "Porto",   "Izmir", "Havana", "Riga",    "Cairo", "Malmo"};

constexpr std::array<const char*, 48> kWords{
    "cobalt", "walrus", "pepper",  "tundra", "gravel",  "sonnet", "violin", "magnet",
    "falcon", "ginger", "puzzle",  "rocket", "saddle",  "tunnel", "velvet", "wizard",
    "anchor", "bamboo", "cactus",  "dragon", "engine",  "fossil", "guitar", "helmet",
    "igloo",  "jacket", "kettle",  "ladder", "marble",  "nickel", "orchid", "pirate",
    "quartz", "rabbit", "salmon",  "temple", "umpire",  "vortex", "whisky", "yogurt",
    "zipper", "banjo",  "compass", "donkey", "emerald", "flute",  "goblin", "hammock"};

// `count` different items, in random order.
template <std::size_t kSize>
std::vector<std::string> draw(Rng& rng, const std::array<const char*, kSize>& items,
                              std::size_t count) {
  std::vector<std::string> left(items.begin(), items.end());
  for (std::size_t i = 0; i < count; ++i) {
    std::swap(left[i], left[i + static_cast<std::size_t>(rng.below(left.size() - i))]);
  }
  left.resize(count);
  return left;
}

std::vector<std::string> draw_numbers(Rng& rng, std::size_t count) {
  std::vector<std::string> numbers;
  while (numbers.size() < count) {
    const std::string number = std::to_string(kSmallestNumber + rng.below(kNumbers));
    if (std::find(numbers.begin(), numbers.end(), number) == numbers.end()) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

NeedleQuestion one_answer(std::string text, std::string lead, const std::string& answer,
                          double chance) {
  return {std::move(text), std::move(lead), {answer}, fmt::format(" {}", answer), chance};
}

NeedleCase make_passkey(Rng& rng, const OwnNeedle&) {
  const std::string key = draw_numbers(rng, 1).front();
  return {
      "A pass key is hidden somewhere in the long text below. Find it and keep it in mind. "
      "There is a question about the pass key at the end.\n\n",
      {fmt::format("\n\nThe pass key is {}. Remember it. {} is the pass key.\n\n", key, key)},
      {one_answer("What is the pass key?", "The pass key is", key, kNumberChance)}};
}

NeedleCase make_word(Rng& rng, const OwnNeedle&) {
  const std::string place = draw(rng, kPlaces, 1).front();
  const std::string word = draw(rng, kWords, 1).front();
  return {
      "The code word of a city is hidden somewhere in the long text below. Find it and keep it "
      "in mind. There is a question about the code word at the end.\n\n",
      {fmt::format("\n\nThe code word for {} is {}. Remember it. The code word for {} is {}.\n\n",
                   place, word, place, word)},
      {one_answer(fmt::format("What is the code word for {}?", place),
                  fmt::format("The code word for {} is", place), word,
                  1.0 / static_cast<double>(kWords.size()))}};
}

// Several cities with a number each.
NeedleCase make_numbers(Rng& rng) {
  NeedleCase made;
  made.intro =
      "The secret numbers of some cities are hidden somewhere in the long text below. Find them "
      "and keep them in mind. There is a question about a secret number at the end.\n\n";
  const std::vector<std::string> places = draw(rng, kPlaces, kKeys);
  const std::vector<std::string> numbers = draw_numbers(rng, kKeys);
  for (std::size_t i = 0; i < kKeys; ++i) {
    made.needles.push_back(
        fmt::format("\n\nThe secret number of {} is {}.\n\n", places[i], numbers[i]));
    made.questions.push_back(one_answer(fmt::format("What is the secret number of {}?", places[i]),
                                        fmt::format("The secret number of {} is", places[i]),
                                        numbers[i], 1.0 / static_cast<double>(kKeys)));
  }
  return made;
}

NeedleCase make_multi_key(Rng& rng, const OwnNeedle&) {
  NeedleCase made = make_numbers(rng);
  made.questions.resize(1);
  return made;
}

NeedleCase make_multi_query(Rng& rng, const OwnNeedle&) {
  return make_numbers(rng);
}

NeedleCase make_multi_value(Rng& rng, const OwnNeedle&) {
  NeedleCase made;
  made.intro =
      "The secret numbers of one city are hidden somewhere in the long text below. Find all of "
      "them and keep them in mind. There is a question about them at the end.\n\n";
  const std::string place = draw(rng, kPlaces, 1).front();
  const std::vector<std::string> numbers = draw_numbers(rng, kValues);
  for (const std::string& number : numbers) {
    made.needles.push_back(
        fmt::format("\n\nOne of the secret numbers of {} is {}.\n\n", place, number));
  }
  const auto n = static_cast<double>(kNumbers);
  made.questions = {{fmt::format("What are the {} secret numbers of {}?", kValues, place),
                     fmt::format("The {} secret numbers of {} are", kValues, place), numbers,
                     fmt::format(" {}, {} and {}", numbers[0], numbers[1], numbers[2]),
                     6.0 / (n * (n - 1.0) * (n - 2.0))}};  // three different ones, in any order
  return made;
}

NeedleCase make_sentence(Rng&, const OwnNeedle& own) {
  NeedleCase made;
  made.intro =
      "One sentence in the long text below has nothing to do with the rest. Find it and keep it in "
      "mind. There is a question about it at the end.\n\n";
  if (!own.given()) {
    made.needles = {
        "\n\nThe nicest thing to do in Lisbon on a warm evening is to eat grilled sardines on the "
        "steps of Alfama.\n\n"};
    made.questions = {{"What is the nicest thing to do in Lisbon on a warm evening?",
                       "The nicest thing to do in Lisbon on a warm evening is to",
                       {"grilled sardines", "steps of Alfama"},
                       " eat grilled sardines on the steps of Alfama",
                       0.0}};
    return made;
  }
  made.needles = {fmt::format("\n\n{}\n\n", own.needle)};
  made.questions = {
      {own.question, own.lead, own.answers, fmt::format(" {}", fmt::join(own.answers, ", ")), 0.0}};
  return made;
}

constexpr std::array kTemplates{
    NeedleTemplate{"passkey", "a number of five digits", make_passkey},
    NeedleTemplate{"word", "one city's code word, an English noun", make_word},
    NeedleTemplate{"multi_key", "four cities with a number each, one of which is asked for",
                   make_multi_key},
    NeedleTemplate{"multi_value", "one city with three numbers, all of which are asked for",
                   make_multi_value},
    NeedleTemplate{"multi_query", "four cities with a number each, each asked for in turn",
                   make_multi_query},
    NeedleTemplate{"sentence", "a sentence with two facts, or the one given", make_sentence},
};

}  // namespace

std::span<const NeedleTemplate> needle_templates() {
  return kTemplates;
}

const NeedleTemplate& find_needle_template(std::string_view name) {
  std::vector<std::string> known;
  for (const NeedleTemplate& row : kTemplates) {
    if (row.name == name) return row;
    known.emplace_back(row.name);
  }
  const std::string nearest = nearest_name(name, known);
  config_error("unknown needle template '{}'{}; known: {}", name,
               nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest),
               fmt::join(known, ", "));
}

void check_needle_case(std::string_view template_name, const NeedleCase& needle_case) {
  for (const NeedleQuestion& question : needle_case.questions) {
    if (question.text.empty() || question.answers.empty()) {
      config_error("needle template {}: give needle, question_text and answer together",
                   template_name);
    }
    for (const std::string& answer : question.answers) {
      for (const std::string* text : {&needle_case.intro, &question.text, &question.lead}) {
        if (contains_text(*text, answer)) {
          config_error("needle template {}: the answer \"{}\" stands in the question: \"{}\"",
                       template_name, answer, *text);
        }
      }
      const auto holds = [&](const std::string& needle) { return contains_text(needle, answer); };
      if (std::count_if(needle_case.needles.begin(), needle_case.needles.end(), holds) != 1) {
        config_error("needle template {}: the answer \"{}\" must stand in exactly one needle",
                     template_name, answer);
      }
    }
  }
}

}  // namespace kvbench
