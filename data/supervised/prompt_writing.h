// What prompts and completions are written with: what a tokenizer puts around two texts, and the
// template of conversations.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/supervised/chat_supervision.h"
#include "data/supervised/record_messages.h"
#include "data/tokenizer/tokenizer_frame.h"

namespace ds {

std::vector<int32_t> framed(const TokenizerFrame& frame, std::span<const int32_t> ids);

// DataError with the place where there is none, for a prompt that is a conversation.
const ChatSupervision& require_template(const std::optional<ChatSupervision>& chat,
                                        const RecordPlace& place);

}  // namespace ds
