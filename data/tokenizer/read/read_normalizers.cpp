#include <array>

#include "core/status/error.h"
#include "data/tokenizer/read/parts.h"

namespace ds {
namespace {

std::unique_ptr<Normalizer> read_precompiled(const JsonPart& part) {
  if (!part.member("precompiled_charsmap")) return nullptr;
  const std::string table = read_replacement_table(part);
  try {
    return precompiled(table);
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
    Kind{"SentencePiece", &read_sentence_piece_normalizer},
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
