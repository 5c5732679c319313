#include <array>

#include "data/tokenizer/read/parts.h"

namespace ds {
namespace {

std::unique_ptr<TokenDecoder> read_space_sign(const JsonPart& part) {
  const bool adds = part.flag("add_prefix_space", true);
  return decode_space_sign(part.character("replacement"),
                           adds && part.text("prepend_scheme", "always") != "never");
}

std::unique_ptr<TokenDecoder> read_replace_decoder(const JsonPart& part) {
  return decode_replace(read_pattern(part), part.text("content"));
}

std::unique_ptr<TokenDecoder> read_word_piece_decoder(const JsonPart& part) {
  return decode_word_piece(part.text("prefix", "##"), part.flag("cleanup", true));
}

std::unique_ptr<TokenDecoder> read_strip_decoder(const JsonPart& part) {
  return decode_strip(part.character("content"), part.count("start", 0), part.count("stop", 0));
}

struct DecoderKind {
  const char* type;
  std::unique_ptr<TokenDecoder> (*read)(const JsonPart& part);
};
constexpr std::array kDecoderKinds{
    DecoderKind{"ByteLevel", [](const JsonPart&) { return decode_byte_letters(); }},
    DecoderKind{"ByteFallback", [](const JsonPart&) { return decode_byte_tokens(); }},
    DecoderKind{"Fuse", [](const JsonPart&) { return join_tokens(); }},
    DecoderKind{"BPEDecoder",
                [](const JsonPart& part) { return decode_suffix(part.text("suffix", "</w>")); }},
    DecoderKind{"Metaspace", &read_space_sign},
    DecoderKind{"WordPiece", &read_word_piece_decoder},
    DecoderKind{"Strip", &read_strip_decoder},
    DecoderKind{"Replace", &read_replace_decoder},
    DecoderKind{"SentencePiece", &read_sentence_piece_decoder},
};

}  // namespace

TokenDecoders read_decoders(const JsonPart& decoder) {
  TokenDecoders out;
  for_each_in_sequence(decoder, "decoders", [&](const JsonPart& part) {
    const std::string type = part.type();
    for (const DecoderKind& kind : kDecoderKinds) {
      if (type == kind.type) return out.push_back(kind.read(part));
    }
    part.unsupported("the decoder " + type);
  });
  return out;
}

}  // namespace ds
