// Chat templates: the forms that families use, Jinja's white space, Python's values, and what is
// refused by name and place.
#include "text/chat_template.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench {
namespace {

const std::vector<ChatMessage> kTalk{
    {"system", "Be brief."}, {"user", " Hi "}, {"assistant", "Yo"}, {"user", "Bye"}};
const std::vector<ChatMessage> kOne{{"user", "Hi"}};

std::string render(const std::string& text, const std::vector<ChatMessage>& messages = kOne,
                   bool answer_next = true) {
  ChatTemplate chat(text, "t");
  chat.bos_token = "<s>";
  chat.eos_token = "</s>";
  return chat.render(messages, answer_next);
}

std::string fault(const std::string& text) {
  return test::error_text<DataError>([&] { render(text); });
}

TEST_CASE("chat template: roles between marks, and a system text of its own (ChatML)") {
  const std::string text =
      "{% for m in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
      "{{ '<|im_start|>system\\nHelp.<|im_end|>\\n' }}{% endif %}"
      "{{'<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
  CHECK(render(text) ==
        "<|im_start|>system\nHelp.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>"
        "assistant\n");
  CHECK(render(text, kTalk, false) ==
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
        "<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n");
}

TEST_CASE("chat template: alternating turns around [INST], the system text folded in") {
  const std::string text =
      "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}"
      "{% set system = messages[0]['content'] %}{% else %}{% set rest = messages %}"
      "{% set system = false %}{% endif %}{% for m in rest %}"
      "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
      "{{ raise_exception('roles must alternate') }}{% endif %}"
      "{% if loop.index0 == 0 and system != false %}"
      "{% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + m['content'] %}"
      "{% else %}{% set content = m['content'] %}{% endif %}"
      "{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
      "{% elif m['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}"
      "{% endfor %}";
  CHECK(render(text, kTalk) ==
        "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n Hi [/INST] Yo </s><s>[INST] Bye [/INST]");
  const auto wrong = test::error_text<DataError>([&] { render(text, {{"assistant", "first"}}); });
  CHECK(wrong.find("the template refuses: roles must alternate") != std::string::npos);
}

TEST_CASE("chat template: headers and a loop that builds its text first (Llama 3, Gemma)") {
  CHECK(render("{{- bos_token }}\n"
               "{%- if not date_string is defined %}\n"
               "    {%- if strftime_now is defined %}\n"
               "        {%- set date_string = strftime_now('%d %b %Y') %}\n"
               "    {%- else %}\n"
               "        {%- set date_string = '1 Jan 2024' %}\n"
               "    {%- endif %}\n"
               "{%- endif %}\n"
               "{#- A note -#}\n"
               "{{- '<|h|>system<|e|>\\n\\nToday: ' + date_string + '<|eot|>' }}\n"
               "{%- if tools is not none %}tools{% endif %}\n"
               "{%- for message in messages %}\n"
               "    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}\n"
               "        {{- '<|h|>' + message['role'] + '<|e|>\\n\\n' + message['content'] | trim "
               "+ '<|eot|>' }}\n"
               "    {%- endif %}\n"
               "{%- endfor %}\n"
               "{%- if add_generation_prompt %}\n"
               "    {{- '<|h|>assistant<|e|>\\n\\n' }}\n"
               "{%- endif %}\n") ==
        "<s><|h|>system<|e|>\n\nToday: 1 Jan 2024<|eot|><|h|>user<|e|>\n\nHi<|eot|><|h|>assistant"
        "<|e|>\n\n");
  CHECK(render("{{ bos_token }}{% for m in messages %}{% if m['role'] == 'assistant' %}"
               "{% set role = 'model' %}{% else %}{% set role = m['role'] %}{% endif %}"
               "{{ '<turn>' + role + '\\n' + (m['content'] | trim) + '</turn>\\n' }}{% endfor %}",
               {{"user", " a "}, {"assistant", "b"}}) ==
        "<s><turn>user\na</turn>\n<turn>model\nb</turn>\n");
}

TEST_CASE("chat template: a namespace outlives its loop, a name does not (Qwen 3)") {
  CHECK(render("{%- set ns = namespace(last=-1, seen=true) %}"
               "{%- for m in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}"
               "{%- if ns.seen and m.role == 'user' and not (m.content.startswith('<tool>') and "
               "m.content.endswith('</tool>')) %}{% set ns.seen = false %}{% set ns.last = index %}"
               "{%- endif %}{%- endfor %}{{ ns.last }} {{ index is defined }}",
               kTalk) == "3 False");
  CHECK(render("{% if enable_thinking is defined and enable_thinking is false %}x{% endif %}y") ==
        "y");
  CHECK(render("{% set c = '<think>a</think>\\n\\nb' %}"
               "{{ c.split('</think>')[-1].lstrip('\\n') }}"
               "{{ c.split('</think>')[0].rstrip('\\n').split('<think>')[-1] }}") == "ba");
}

TEST_CASE("chat template: white space around tags") {
  CHECK(render("a\n{% if true %}\nb\n{% endif %}\nc") == "a\nb\nc");
  CHECK(render("a\n  {% if true %}\n  b\n  {% endif %}\nc\n") == "a\n  b\nc");
  CHECK(render("a  {{ 'b' }}\nc") == "a  b\nc");
  CHECK(render("a \n {{- 'b' -}} \n c") == "abc");
  CHECK(render("a {%+ if true +%}\nb{% endif %}") == "a \nb");
  CHECK(render("a\n  {# c #}\nb") == "a\nb");
  CHECK(render("a\n\n") == "a\n");
  CHECK(render("x {% if true %}y{% endif %}") == "x y");
}

TEST_CASE("chat template: values, operators, filters, tests and loops") {
  struct Row {
    const char* text;
    const char* expected;
  };
  constexpr Row kRows[] = {
      {"{{ 1 + 2 * 3 }} {{ 7 // 2 }} {{ -7 % 4 }} {{ 7 / 2 }} {{ -3 }}", "7 3 1 3.5 -3"},
      {"{{ 'a' ~ 1 ~ none ~ true }}", "a1NoneTrue"},
      {"{{ 'x' if false else 'y' }}{{ 'z' if false }}", "y"},
      {"{{ not true or 1 == 1.0 }} {{ 'b' in 'abc' }} {{ 'k' not in {'k': 1} }}",
       "True True False"},
      {"{{ nothing | default('d') }}{{ '' | default('e', true) }}{{ '' | default('f') }}", "de"},
      {"{{ ' a ' | trim | upper }}{{ 'Bc'|lower }}{{ 'ab'|length }}{{ 'é'|length }}", "Abc21"},
      {"{{ {'a': [1, 'x\"é', none, true]} | tojson }}", "{\"a\": [1, \"x\\\"é\", null, true]}"},
      {"{{ [1, {'b': 2}] | tojson(indent=2) }}", "[\n  1,\n  {\n    \"b\": 2\n  }\n]"},
      {"{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{% if not loop.last %},"
       "{% endif %}{% endfor %}",
       "a1,b2"},
      {"{% for i in range(4) if i is odd %}{{ i }}/{{ loop.length }} {% endfor %}", "1/2 3/2 "},
      {"{% for i in [] %}{% else %}none{% endfor %}", "none"},
      {"{{ 'hello'[1:3] }}{{ 'hello'[::-1] }}{{ 'hello'[-1] }}{{ [1, 2, 3][:-1]|join('-') }}",
       "elolleho1-2"},
      {"{% set x %}a{{ 1 }}{% endset %}{{ x }}{% set a, b = 1, 2 %}{{ b }}", "a12"},
      {"{{ 'a,b'.split(',')[1] }}{{ 'x'.replace('x', 'y') }}{{ 'ab cd'.title() }}", "byAb Cd"},
      {"{{ messages[0].role is string }} {{ messages is mapping }} {{ tools is none }} "
       "{{ messages[0].missing is undefined }}",
       "True False True True"},
      {"{{ 'A' 'B' }}{{ \"\\u00e9\\x41\\n\" }}", "ABéA\n"},
      {"{% generation %}g{% endgeneration %}", "g"},
      {"{{ {'a': 1}.get('b', 'c') }}{{ (1, 2)|last }}{{ 5 is equalto 5 }}", "c2True"},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.text);
    CHECK(render(row.text) == row.expected);
  }
}

TEST_CASE("chat template: what is refused names the construct, the line and the column") {
  CHECK(fault("a\n {% macro f() %}{% endmacro %}") ==
        "t: line 2, column 2: {% macro %} is not supported (there are if, for and set)");
  CHECK(fault("{{ messages | selectattr('role') }}").find("the filter 'selectattr'") !=
        std::string::npos);
  CHECK(fault("{{ 'a' | trimm }}").find("did the template mean trim?") != std::string::npos);
  CHECK(fault("{{ 'a' is weird }}").find("the test 'weird'") != std::string::npos);
  CHECK(fault("{{ 'a'.frobnicate() }}").find("the method 'frobnicate'") != std::string::npos);
  CHECK(fault("{{ strftime_now('%Y') }}").find("'strftime_now' cannot be called") !=
        std::string::npos);
  CHECK(fault("{{ messages }}").find("printing a list") != std::string::npos);
  CHECK(fault("{{ a.b }}").find("'b' of something undefined") != std::string::npos);
  CHECK(fault("{% if true %}x").find("expected {% endif %}") != std::string::npos);
  CHECK(fault("{{ 'a").find("column 4: the string has no end") != std::string::npos);
  CHECK(fault("{% for x in messages recursive %}{% endfor %}").find("recursive") !=
        std::string::npos);
  for (const char* text : {"{{", "{{ }}", "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}", "{% %}", "{% end %}",
                           "{# a", "{{ 1 ! 2 }}", "{{ a b }}", "{{ 1 < 2 < 3 }}", "{{ x[ }}",
                           "{{ 2 ** 3 }}", "{% set x.y = 1 %}", "{{ 1 // 0 }}", "{{ '\\ud800' }}",
                           "{{ 1 + 'a' }}", "{{ 9223372036854775807 + 1 }}"}) {
    CAPTURE(text);
    CHECK(fault(text).starts_with("t: line 1, column "));
  }
}

TEST_CASE("chat template: nothing runs or grows without end") {
  const std::string many =
      "{% for a in range(10000) %}{% for b in range(10000) %}x{% endfor %}"
      "{% endfor %}";
  CHECK(fault(many).find("runs too long") != std::string::npos);
  CHECK(fault("{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}"
              "{% set ns.x = ns.x ~ ns.x %}{% endfor %}")
            .find("grows too large") != std::string::npos);
  CHECK(fault("{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}"
              "{% endfor %}")
            .find("nest too deeply") != std::string::npos);
  CHECK(fault("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}")
            .find("nested too deeply") != std::string::npos);
  std::string sum = "{{ 1";
  for (int i = 0; i < 5000; ++i) sum += "+1";
  CHECK(fault(sum + " }}").find("too long") != std::string::npos);
  CHECK(fault("{% set ns = namespace() %}{% set ns.me = ns %}").find("no namespace") !=
        std::string::npos);
}

TEST_CASE("chat template: where a checkpoint keeps it") {
  const test::TempDir folder;
  CHECK_FALSE(ChatTemplate::load(folder.path()).has_value());
  folder.write("tokenizer_config.json", R"({"bos_token": "<b>"})");
  CHECK_FALSE(ChatTemplate::load(folder.path()).has_value());
  folder.write("tokenizer_config.json",
               R"({"bos_token": "<b>", "chat_template": "{{ bos_token }}one"})");
  CHECK(ChatTemplate::load(folder.path())->render(kOne, true) == "<b>one");
  folder.write("tokenizer_config.json",
               R"({"eos_token": {"content": "<e>"}, "chat_template": [
                   {"name": "tool_use", "template": "x"},
                   {"name": "default", "template": "two{{ eos_token }}"}]})");
  CHECK(ChatTemplate::load(folder.path())->render(kOne, true) == "two<e>");
  folder.write("chat_template.jinja", "three");
  CHECK(ChatTemplate::load(folder.path())->render(kOne, true) == "three");
  folder.write("chat_template.jinja", "{{");
  CHECK_THROWS_AS(ChatTemplate::load(folder.path()), DataError);
}

}  // namespace
}  // namespace kvbench
