#include "data/supervised/prompt_writing.h"

namespace ds {

std::vector<int32_t> framed(const TokenizerFrame& frame, std::span<const int32_t> ids) {
  std::vector<int32_t> out = frame.before;
  out.insert(out.end(), ids.begin(), ids.end());
  out.insert(out.end(), frame.after.begin(), frame.after.end());
  return out;
}

const ChatSupervision& require_template(const std::optional<ChatSupervision>& chat,
                                        const RecordPlace& place) {
  if (chat) return *chat;
  refuse_record(place,
                "the prompt is a list of messages, and the tokenizer has no chat template; "
                "data.chat.template names one");
}

}  // namespace ds
