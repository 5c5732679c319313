#include <array>

#include "core/status/error.h"
#include "data/tokenizer/read/parts.h"

namespace ds {
namespace {

// The bytes of a text in base64 (RFC 4648).
std::string decode_base64(const JsonPart& part, const std::string& text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : std::string_view(text).substr(0, text.find('='))) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) part.refuse("precompiled_charsmap is no base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<char>(bits >> count & 0xffU));
  }
  return out;
}

std::unique_ptr<Normalizer> read_precompiled(const JsonPart& part) {
  if (!part.member("precompiled_charsmap")) return nullptr;
  try {
    return precompiled(decode_base64(part, part.text("precompiled_charsmap")));
  } catch (const DataError& error) {
    part.refuse(error.what());
  }
}

std::unique_ptr<Normalizer> read_bert(const JsonPart& part) {
  BertNormalizing bert{.clean_text = part.flag("clean_text", true),
                       .handle_chinese_chars = part.flag("handle_chinese_chars", true),
                       .lowercase = part.flag("lowercase", true)};
  bert.strip_accents = part.flag("strip_accents", bert.lowercase);
  return bert_normalizer(bert);
}

std::unique_ptr<Normalizer> read_strip(const JsonPart& part) {
  return strip({.left = part.flag("strip_left", true), .right = part.flag("strip_right", true)});
}

std::unique_ptr<Normalizer> read_replace(const JsonPart& part) {
  return replace(read_pattern(part), part.text("content"));
}

struct Kind {
  const char* type;
  std::unique_ptr<Normalizer> (*read)(const JsonPart& part);
};
constexpr std::array kKinds{
    Kind{"NFC", [](const JsonPart&) { return unicode_form(unicode::Form::kNfc); }},
    Kind{"NFD", [](const JsonPart&) { return unicode_form(unicode::Form::kNfd); }},
    Kind{"NFKC", [](const JsonPart&) { return unicode_form(unicode::Form::kNfkc); }},
    Kind{"NFKD", [](const JsonPart&) { return unicode_form(unicode::Form::kNfkd); }},
    Kind{"Lowercase", [](const JsonPart&) { return lowercase(); }},
    Kind{"StripAccents", [](const JsonPart&) { return strip_accents(); }},
    Kind{"ByteLevel", [](const JsonPart&) { return byte_letters(); }},
    Kind{"Nmt", [](const JsonPart&) { return nmt(); }},
    Kind{"Prepend", [](const JsonPart& part) { return prepend(part.text("prepend")); }},
    Kind{"Strip", &read_strip},
    Kind{"Replace", &read_replace},
    Kind{"BertNormalizer", &read_bert},
    Kind{"Precompiled", &read_precompiled},
};

}  // namespace

Normalizers read_normalizers(const JsonPart& normalizer) {
  Normalizers out;
  for_each_in_sequence(normalizer, "normalizers", [&](const JsonPart& part) {
    const std::string type = part.type();
    for (const Kind& kind : kKinds) {
      if (type != kind.type) continue;
      if (auto made = kind.read(part)) out.push_back(std::move(made));
      return;
    }
    part.unsupported("the normalizer " + type);
  });
  return out;
}

}  // namespace ds
