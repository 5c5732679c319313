// Fuzzes records of supervised fine-tuning: the first byte says of which kind and in which layout
// the others are a file, of examples or of pairs. Conversations go through a template that marks
// nothing, and one that marks what is learnt.
#include <array>

#include "data/supervised/supervised_samples.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/fuzz/one_input.h"

namespace {

constexpr const char* kTurns =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";
constexpr const char* kMarks =
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";

ds::ChatSupervision supervision_by(const char* source) {
  ds::MemoryFileSystem fs;
  fs.write_text_atomically("/t.jinja", source);
  return {ds::ChatFormat::read(fs, "byte", "/t.jinja"),
          {.ends = ds::LearntEnds::kOfTurn, .special_tokens = {"</s>"}}};
}

std::unique_ptr<ds::ExampleReader> reader_of(int kind, const ds::Tokenizer& bytes) {
  switch (kind) {
    case 0:
      return ds::chat_examples(bytes, {}, supervision_by(kTurns));
    case 1:
      return ds::chat_examples(bytes, {}, supervision_by(kMarks));
    case 2: {
      ds::PromptForm form{.end = 0};
      form.chat.emplace(supervision_by(kTurns));
      return ds::prompt_examples(bytes, std::move(form));
    }
    default:
      return ds::tokenized_examples(300);
  }
}

std::unique_ptr<ds::PairReader> pairs_of(const ds::Tokenizer& bytes) {
  ds::PreferenceForm form{.end = 0};
  form.chat.emplace(supervision_by(kTurns));
  return ds::preference_pairs(bytes, std::move(form));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static constexpr std::array kNames{"/a.jsonl", "/a.csv", "/a.tsv"};
  if (size == 0) return 0;
  static const ds::ByteTokenizer bytes;
  const int kind = data[0] % 5, layout = data[0] / 5 % 3, too_long = data[0] / 15 % 3;
  ds::MemoryFileSystem fs;
  ds::fuzz::put(fs, kNames.at(static_cast<size_t>(layout)), ds::fuzz::bytes_of(data + 1, size - 1));
  ds::SupervisedForm form{.length = 16, .too_long = static_cast<ds::LongExamples>(too_long)};
  const bool has_pairs = kind == 4;  // which are neither packed nor split
  if (has_pairs && form.too_long == ds::LongExamples::kSplit) {
    form.too_long = ds::LongExamples::kTruncate;
  }
  if (data[0] > 127 && !has_pairs) form.packing_window = 4;
  const std::vector<std::string> paths{kNames.at(static_cast<size_t>(layout))};
  ds::fuzz::expect_refusal_or_success([&] {
    const auto source = has_pairs ? ds::open_preferences(fs, paths, *pairs_of(bytes), form)
                                  : ds::open_supervised(fs, paths, *reader_of(kind, bytes), form);
    std::vector<int32_t> numbers(static_cast<size_t>(source->size()));
    source->read(0, numbers);
    std::vector<int32_t> tokens(16), targets(16), positions(16), ranges(32), sides(16);
    for (size_t at = 0; at + 32 < numbers.size(); at += 32) {
      ds::SupervisedFields fields{
          .tokens = tokens, .targets = targets, .positions = positions, .key_ranges = ranges};
      if (has_pairs) fields.sides = sides;
      ds::write_supervised(std::span(numbers).subspan(at, 32), fields);
    }
  });
  return 0;
}
