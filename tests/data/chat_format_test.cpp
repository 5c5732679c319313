// Which template a tokenizer's folder means, and what it is told.
#include "data/chat_format.h"

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;

namespace {

constexpr std::string_view kTurns =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

void put(FileSystem& files, const std::string& path, std::string_view text) {
  if (files.exists(path)) files.remove(path);
  files.create(path)->write(0, std::as_bytes(std::span(text)));
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '"' ? "\\\"" : std::string(1, c);
  return out;
}

// A folder whose tokenizer_config.json has that member beside the tokens.
void put_folder(FileSystem& files, const std::string& chat_template) {
  if (!files.exists("/m")) files.make_directory("/m");
  put(files, "/m/tokenizer.json", "{}");
  put(files, "/m/tokenizer_config.json",
      R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": )" +
          chat_template + "}");
}

std::string rendered(FileSystem& files, std::string_view conversation, bool replies = false,
                     const std::string& chosen = "") {
  return ChatFormat::read(files, "/m", chosen).render(conversation, "chat", replies).text;
}

constexpr std::string_view kHello = R"([{"role": "user", "content": "Hello"}])";

}  // namespace

TEST_CASE("a conversation is written by the template beside the tokenizer", "[data]") {
  MemoryFileSystem files;
  put_folder(files, '"' + escaped(kTurns) + '"');
  CHECK(rendered(files, kHello) == "<s>[user]Hello");
  CHECK(rendered(files, kHello, true) == "<s>[user]Hello[assistant]");
  CHECK(rendered(files, R"({"messages": [{"role": "user", "content": "x"}], "bos_token": "!",
                           "add_generation_prompt": false})",
                 true) == "![user]x[assistant]");
}

TEST_CASE("messages are told to templates as transformers tells them", "[data]") {
  MemoryFileSystem files;
  put_folder(files, R"("{{ messages | tojson }}")");
  CHECK(rendered(files, R"([{"role": "user", "content": null, "name": "n"},
                            {"role": "assistant", "reasoning": "r"}])") ==
        R"([{"role": "user", "name": "n"}, {"thinking": "r", "role": "assistant", )"
        R"("reasoning": "r", "reasoning_content": "r"}])");
  CHECK(rendered(files, R"([{"role": "assistant", "thinking": "t", "reasoning_content": "c"}])") ==
        R"([{"thinking": "t", "role": "assistant", "reasoning_content": "c"}])");
  CHECK(rendered(files, R"([{"role": "assistant", "thinking": "t", "reasoning_content": null}])") ==
        R"([{"thinking": "t", "role": "assistant", "reasoning_content": "t"}])");
}

TEST_CASE("files with templates win over the configuration", "[data]") {
  MemoryFileSystem files;
  put_folder(files,
             R"([{"name": "default", "template": "a"}, {"name": "extra", "template": "b"}])");
  CHECK(rendered(files, kHello, false, "extra") == "b");
  put(files, "/m/chat_template.jinja", "file {{ eos_token }}{{ mask_token }}");
  CHECK(rendered(files, kHello) == "file </s>");
  CHECK_THROWS_WITH(rendered(files, kHello, false, "extra"), Catch::Contains("/m (default)"));
  files.make_directory("/m/additional_chat_templates");
  put(files, "/m/additional_chat_templates/tool_use.jinja", "tools {{ tools | length }}");
  put(files, "/m/additional_chat_templates/rag.jinja", "rag {% unknown %}");
  put(files, "/m/additional_chat_templates/README", "{% unknown %}");
  CHECK(rendered(files, R"({"messages": [{"role": "user"}], "tools": null})") == "file </s>");
  CHECK(rendered(files, R"({"messages": [{"role": "user"}], "tools": [{}, {}]})") == "tools 2");
  CHECK(rendered(files, R"({"messages": [{"role": "user"}], "tools": [{}]})", false, "tool_use") ==
        "tools 1");
  CHECK_THROWS_WITH(rendered(files, kHello, false, "rag"), Catch::Contains("rag.jinja"));
}

TEST_CASE("one of several templates of a configuration is meant", "[data]") {
  MemoryFileSystem files;
  put_folder(files, R"([{"name": "default", "template": "a"}, {"name": "rag", "template": "b"},
                        {"name": "tool_use", "template": "c"}])");
  CHECK(rendered(files, kHello) == "a");
  CHECK(rendered(files, R"({"messages": [{"role": "user"}], "tools": [1]})") == "c");
  CHECK(rendered(files, R"({"messages": [{"role": "user"}], "tools": [1]})", false, "rag") == "b");
  put_folder(files, R"({"default": "A", "rag": "B"})");
  CHECK(rendered(files, kHello) == "A");
  CHECK(rendered(files, kHello, false, "rag") == "B");
  put_folder(files, R"({"default": 3})");
  CHECK_THROWS_WITH(rendered(files, kHello), Catch::EndsWith("\"default\" is no text"));
  put_folder(files, R"([{"name": "default", "template": "a"}, {"name": "rag", "template": "b"},
                        {"name": "tool_use", "template": "c"}])");
  put(files, "/mine.jinja", "mine");
  CHECK(rendered(files, kHello, false, "/mine.jinja") == "mine");
  CHECK_THROWS_WITH(rendered(files, kHello, false, "other"),
                    "--chat-template other: no such file, and none of the templates of /m "
                    "(default, rag, tool_use)");
  put(files, "/m/chat_template.json", R"({"chat_template": "of a processor"})");
  put_folder(files, "null");
  CHECK(rendered(files, kHello) == "of a processor");
}

TEST_CASE("a folder without a template, or with none that is meant, is refused", "[data]") {
  MemoryFileSystem files;
  put_folder(files, "null");
  CHECK_THROWS_WITH(rendered(files, kHello),
                    Catch::Contains("/m: there is no chat template beside the tokenizer"));
  put_folder(files, R"([{"name": "rag", "template": "b"}])");
  CHECK_THROWS_WITH(rendered(files, kHello),
                    Catch::Contains("none of its chat templates is the default one: rag"));
  for (const char* const bad : {"3", "[3]", R"([{"name": "a"}])", R"([{"template": "a"}])"}) {
    put_folder(files, bad);
    CHECK_THROWS_WITH(rendered(files, kHello),
                      Catch::StartsWith("/m/tokenizer_config.json: chat_template is no text"));
  }
  put(files, "chat_template.jinja", "of this folder");
  CHECK_THROWS_WITH(ChatFormat::read(files, "byte", ""), Catch::Contains("no chat template"));
}

TEST_CASE("what is no conversation is refused with its place", "[data]") {
  MemoryFileSystem files;
  put_folder(files, '"' + escaped(kTurns) + '"');
  const auto refused = [&](std::string_view text, const std::string& why) {
    CHECK_THROWS_WITH(rendered(files, text), Catch::StartsWith("chat: " + why));
  };
  refused("[", "not valid JSON at byte 1");
  refused("3", "the conversation is no list and no object");
  refused(R"({"prompt": "x"})", "there is no list \"messages\"");
  refused("[]", "the conversation is empty");
  refused(R"({"messages": [{"role": "user"}], "n": [1, -12345678901234567890]})",
          "the integer -12345678901234567890 has more than 64 bits");
  CHECK_NOTHROW(rendered(files, R"([{"role": "user", "n": [9223372036854775807, 1e30, 1.0e99],
                                     "content": "\"123456789012345678901"}])"));
  const std::string brackets(100'000, '[');
  refused(brackets + std::string(brackets.size(), ']'), "nested deeper than 200 levels");
  const std::string in_text = "[{\"role\": \"user\", \"content\": \"\\\"" + brackets + "\"}]";
  CHECK(rendered(files, in_text).ends_with("[["));
  refused(R"({"messages": "x"})", "there is no list \"messages\"");
  refused(R"([{"role": "user"}, 3])", "message 2 is no object");
  refused(R"([{"from": "user"}])", "message 1 has no \"role\"");
  refused(R"([{"role": 1}])", "message 1 has no \"role\"");
  put(files, "/m/chat_template.jinja", "\n{{ raise_exception('no system') }}");
  refused(std::string(kHello), "/m/chat_template.jinja");
  CHECK_THROWS_WITH(rendered(files, kHello), Catch::Contains("no system"));
}
