// The places of tokens in their text: what turns places that are learnt into tokens that are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/run/interpreter.h"
#include "data/tokenizer/tokenizer.h"

namespace ds {

// What tokens add to a text that others went before in, as Tokenizer::in_text() has it of one.
std::string text_within(const Tokenizer& tokenizer, std::span<const int32_t> ids);

// Byte ranges of the text, one for each of its tokens, of which neighbours may leave out white
// space that a tokenizer drops. A token of bytes has those it stands for, but where those of one
// character are told as U+FFFD by themselves: then each has all of it.
// Nothing where the tokens do not spell the text: the tokenizer normalizes it.
std::optional<std::vector<chat::TextRange>> token_places(const Tokenizer& tokenizer,
                                                         std::string_view text,
                                                         std::span<const int32_t> ids);

// 1 for each token that shares a byte with one of the ranges, which are in their order, or stands
// for no byte between two within one, as transformers' return_assistant_tokens_mask has it; 0 for
// others.
std::vector<uint8_t> mask_of_places(std::span<const chat::TextRange> places,
                                    std::span<const chat::TextRange> learnt);

}  // namespace ds
