// Fuzzes chat templates: an accepted one renders a small conversation within small limits, or is
// refused with an error.
#include "data/chat/template.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr std::string_view kVariables =
      R"({"messages": [{"role": "user", "content": "Hé 'x' \"y\"\n"}, {"role": "assistant",)"
      R"( "content": [{"type": "text", "text": "ok"}], "n": [1, 2.5, null, true]}],)"
      R"( "tools": null, "bos_token": "<s>", "add_generation_prompt": true})";
  rapidjson::Document variables;
  variables.Parse(kVariables.data(), kVariables.size());
  ds::fuzz::expect_refusal_or_success([&] {
    const std::string source(reinterpret_cast<const char*>(data), size);
    const ds::ChatTemplate chat = ds::ChatTemplate::parse(source, "input");
    // They are large enough for chains of values that deep recursion could not let go of.
    const ds::RenderLimits limits{.steps = 400'000, .depth = 64, .bytes = size_t{64} << 20};
    chat.render(
        variables, [] { return std::tm{}; }, limits);
  });
  return 0;
}
