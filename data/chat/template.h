// Chat templates: the small programs beside tokenizers that make one text of a conversation. The
// language is Jinja's, as Hugging Face's transformers set it up; docs/chat-templates.md says which
// part of it is understood.
#pragma once

#include <rapidjson/document.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/run/context.h"
#include "data/chat/run/interpreter.h"

namespace ds {

struct RenderedChat {
  std::string text;
  // What {% generation %} blocks wrote, as bytes of the text, in their order: what an assistant
  // said, and so is learnt.
  std::vector<chat::TextRange> generation;
  // The first generation block that wrote into a value (in a macro, say), whose place is unknown;
  // 0: none. With one, `generation` is not whole.
  int unplaced_generation_line = 0;
  bool has_marks = false;  // whether the template has such blocks, be it that they wrote nothing
};

// Immutable, so that threads may render by one together.
class ChatTemplate {
 public:
  static constexpr int64_t kLargestSource = int64_t{1} << 20;  // bytes of a template
  // `name` stands in messages. DataError, with the line, for what is no template; Unsupported for a
  // statement, filter or test that Jinja has and this program does not.
  static ChatTemplate parse(std::string_view source, std::string name);

  // `variables` is an object: messages, tools (null for none), add_generation_prompt, bos_token and
  // so on. DataError, with the line, for what the template refuses or does wrong, and where it
  // exceeds the limits. Without a clock strftime_now is an error.
  RenderedChat render(const rapidjson::Value& variables, const ChatClock& clock = nullptr,
                      const RenderLimits& limits = {}) const;

  bool has_generation() const { return has_generation_; }  // whether it marks what is learnt

 private:
  ChatTemplate() = default;
  std::string name_;
  std::shared_ptr<const chat::Tree> tree_;
  bool has_generation_ = false;
};

}  // namespace ds
