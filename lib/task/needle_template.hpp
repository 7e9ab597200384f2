// What is hidden in a haystack and what is asked about it, as a table of templates. A new one is a
// function and a row in needle_template.cpp. Texts are the project's own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/rng.hpp"

namespace kvbench {

struct NeedleQuestion {
  std::string text;
  std::string lead;                  // how the answer begins; the model goes on from here
  std::vector<std::string> answers;  // all of them are asked for
  std::string reply;                 // the right continuation of `lead`, whose NLL is measured
  // Probability that a guess is right: drawn as the answers were or, where other needles are of
  // the same kind, taken from among all that the text shows.
  double chance = 0.0;
};

struct NeedleCase {
  std::string intro;  // before the haystack
  // The first stands at the depth asked for, the others at equal distances, going round.
  std::vector<std::string> needles;
  std::vector<NeedleQuestion> questions;  // each is a prompt of its own over the same needles
};

// The user's own needle, for the template `sentence`; all empty: the template's.
struct OwnNeedle {
  std::string needle, question, lead;
  std::vector<std::string> answers;

  bool given() const {
    return !needle.empty() || !question.empty() || !lead.empty() || !answers.empty();
  }
};

struct NeedleTemplate {
  std::string_view name;
  std::string_view summary;
  NeedleCase (*make)(Rng& rng, const OwnNeedle& own);
};

std::span<const NeedleTemplate> needle_templates();
// ConfigError for an unknown name, with the nearest one.
const NeedleTemplate& find_needle_template(std::string_view name);

// ConfigError where the answer stands in the intro or in a question, or in no needle.
void check_needle_case(std::string_view template_name, const NeedleCase& needle_case);

}  // namespace kvbench
