#include "data/text/sentences.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/status/error.h"
#include "data/text/record_lines.h"
#include "data/text/text_kind.h"

namespace ds {
namespace {

using OnEachSentence = std::function<void(const Sentence& sentence)>;

constexpr std::string_view kSentenceSection = "data.token_classification";
constexpr std::string_view kDocumentStart = "-DOCSTART-";

// JSON lines ------------------------------------------------------------------------------------

std::vector<std::string> words_in(const rapidjson::Document& object, const std::string& name,
                                  const std::string& path, int64_t line) {
  const rapidjson::Value& list = field_on_line(object, name, kSentenceSection, path, line);
  if (!list.IsArray()) {
    refuse_line(path, line, fmt::format("the field \"{}\" is no list, of one for each word", name));
  }
  std::vector<std::string> words;
  for (const rapidjson::Value& value : list.GetArray()) {
    const std::string what = fmt::format("number {} of \"{}\"", words.size(), name);
    words.push_back(word_of(value, what, path, line));
  }
  return words;
}

void for_each_object(const SentenceText& text, const SentenceFields& fields,
                     const OnEachSentence& on_sentence) {
  const auto on_object = [&](const rapidjson::Document& object, int64_t number) {
    const Sentence sentence{.words = words_in(object, fields.words, text.path, number),
                            .tags = words_in(object, fields.tags, text.path, number),
                            .line = number};
    if (sentence.words.size() != sentence.tags.size()) {
      refuse_line(
          text.path, number,
          fmt::format("\"{}\" has {} words, and \"{}\" {}; each word needs one", fields.words,
                      sentence.words.size(), fields.tags, sentence.tags.size()));
    }
    on_sentence(sentence);
  };
  for_each_object_line(text.content, text.path, on_object);
}

// Columns ---------------------------------------------------------------------------------------

// Tabs part columns that may have spaces; else runs of spaces do.
std::vector<std::string_view> columns_of(std::string_view line) {
  std::vector<std::string_view> columns;
  const bool has_tabs = line.find('\t') != std::string_view::npos;
  const char between = has_tabs ? '\t' : ' ';
  while (!line.empty()) {
    const size_t end = std::min(line.find(between), line.size());
    if (has_tabs || end > 0) columns.push_back(line.substr(0, end));
    if (has_tabs && end + 1 == line.size()) columns.emplace_back();
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return columns;
}

class ColumnReader {
 public:
  ColumnReader(const SentenceText& text, const OnEachSentence& on_sentence)
      : text_(text), on_sentence_(on_sentence) {}

  void read() {
    std::string_view rest = without_mark(text_.content);
    for (int64_t number = 1; !rest.empty(); ++number) {
      const std::string_view line = next_line(rest);
      if (is_blank(line) || line.starts_with(kDocumentStart)) {
        end_sentence();
      } else {
        add(columns_of(line), number);
      }
    }
    end_sentence();
  }

 private:
  void add(const std::vector<std::string_view>& columns, int64_t line) {
    if (columns.size() < 2) {
      refuse_line(text_.path, line, "one column, expected a word and, in the last one, its class");
    }
    if (columns_ == 0) columns_ = columns.size();
    if (columns.size() != columns_) {
      refuse_line(
          text_.path, line,
          fmt::format("{} columns, expected {}, as the first word has", columns.size(), columns_));
    }
    if (columns.front().empty() || columns.back().empty()) {
      refuse_line(text_.path, line,
                  fmt::format("the {} is empty", columns.front().empty() ? "word" : "class"));
    }
    if (sentence_.words.empty()) sentence_.line = line;
    sentence_.words.emplace_back(columns.front());
    sentence_.tags.emplace_back(columns.back());
  }

  void end_sentence() {
    if (!sentence_.words.empty()) on_sentence_(sentence_);
    sentence_.words.clear();
    sentence_.tags.clear();
  }

  const SentenceText& text_;
  const OnEachSentence& on_sentence_;
  size_t columns_ = 0;  // of the first word; 0: there was none yet
  Sentence sentence_{.words = {}, .tags = {}, .has_lines = true};
};

}  // namespace

SentenceLayout sentence_layout(const std::string& path) {
  constexpr std::array<std::string_view, 6> kColumns{".conll", ".bio", ".iob",
                                                     ".iob2",  ".txt", ".tsv"};
  if (layout_of(path) == TextLayout::kJsonLines) return SentenceLayout::kJsonLines;
  const std::string ending = ending_of(path);
  if (std::ranges::find(kColumns, ending) != kColumns.end()) return SentenceLayout::kColumns;
  throw Unsupported(
      fmt::format("{}: words with their classes are read from JSON lines (.jsonl), and in CoNLL's "
                  "form from .conll, .bio, .iob, .iob2, .txt and .tsv",
                  path));
}

void for_each_sentence(const SentenceText& text, const SentenceFields& fields,
                       const OnEachSentence& on_sentence) {
  require_record_text(text.content, text.path);
  if (text.layout == SentenceLayout::kJsonLines) {
    return for_each_object(text, fields, on_sentence);
  }
  ColumnReader(text, on_sentence).read();
}

}  // namespace ds
