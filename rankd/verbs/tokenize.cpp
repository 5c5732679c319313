#include "rankd/verbs/tokenize.h"

#include <fmt/ranges.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <charconv>

#include "cli/standard_input.h"
#include "core/files/input_files.h"
#include "data/chat_format.h"
#include "data/text/text_kind.h"
#include "data/tokenizer/tokenizer_frame.h"
#include "generate/shown_text.h"
#include "rankd/verbs/terminal/input_texts.h"
#include "rankd/verbs/token_files.h"
#include "train/model_source.h"

namespace ds {
namespace {

using Writer = rapidjson::Writer<rapidjson::StringBuffer>;

// Ids in a text: numbers between blanks, commas and brackets.
std::vector<int32_t> ids_in(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r\n,[]";
  std::vector<int32_t> ids;
  for (size_t at = 0;;) {
    at = text.find_first_not_of(kBetween, at);
    if (at == std::string_view::npos) return ids;
    const size_t end = std::min(text.size(), text.find_first_of(kBetween, at));
    int32_t id = 0;
    const auto parsed = std::from_chars(text.data() + at, text.data() + end, id);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + end) {
      throw DataError(
          fmt::format("tokenize --decode: \"{}\" is no token id", text.substr(at, end - at)));
    }
    ids.push_back(id);
    at = end;
  }
}

struct Input {
  std::string text;
  std::string place;  // file and line, for messages; empty for a text of the command line
};

std::vector<Input> inputs_of(FileSystem& files, const TokenizeArgs& args) {
  std::vector<Input> inputs;
  for (const std::string& text : args.texts) inputs.push_back({text, ""});
  const auto add = [&](std::string text, const std::string& source) {
    if (!args.lines) {
      inputs.push_back({std::move(text), source});
      return;
    }
    for (NumberedLine& line : numbered_lines_of(text))
      inputs.push_back({std::move(line.text), fmt::format("{}:{}", source, line.number)});
  };
  for (const std::string& path : args.files) add(read_text_file(files, path), path);
  if (args.texts.empty() && args.files.empty())
    add(read_standard_input("tokenize"), "standard input");
  return inputs;
}

// A text with its ids, from whichever of them it was made.
struct Line {
  std::string text{};
  std::vector<int32_t> ids{};
  std::vector<chat::TextRange> generation{};  // of a conversation: what the assistant said
};

void put_ranges(Writer& out, const std::vector<chat::TextRange>& ranges) {
  out.StartArray();
  for (const chat::TextRange& range : ranges) {
    out.StartArray();
    out.Uint64(range.begin);
    out.Uint64(range.end);
    out.EndArray();
  }
  out.EndArray();
}

std::string json_line(const Line& line, const Tokenizer& tokenizer, const TokenizeArgs& args) {
  rapidjson::StringBuffer buffer;
  Writer out(buffer);
  const auto put = [&](const std::string& value) {
    out.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
  };
  out.StartObject();
  if (args.decode || args.chat.is_chat) {
    out.Key("text");
    put(line.text);
  }
  if (args.chat.is_chat) {
    out.Key("generation");
    put_ranges(out, line.generation);
  }
  out.Key("count");
  out.Uint64(line.ids.size());
  if (!args.count) {
    out.Key("ids");
    out.StartArray();
    for (const int32_t id : line.ids) out.Int(id);
    out.EndArray();
    out.Key("tokens");
    out.StartArray();
    for (const int32_t id : line.ids) put(as_utf8(tokenizer.in_text(id)));
    out.EndArray();
  }
  out.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

std::string plain_line(const Line& line, const TokenizeArgs& args) {
  if (args.decode || args.render) return line.text + "\n";
  if (args.count) return fmt::format("{}\n", line.ids.size());
  return fmt::format("{}\n", fmt::join(line.ids, " "));
}

// Makes lines of inputs, whichever way they are asked for.
class LineMaker {
 public:
  LineMaker(FileSystem& files, const std::string& name, const TokenizeArgs& args)
      : args_(args), tokenizer_(make_tokenizer(files, name)) {
    if (args.special_tokens) frame_ = read_frame(files, name, *tokenizer_);
    if (args.chat.is_chat) format_ = ChatFormat::read(files, name, args.chat.chat_template);
  }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

  Line line_of(const std::string& input, const std::string& place) const {
    if (args_.decode) {
      Line line{.ids = ids_in(input)};
      line.text = as_utf8(tokenizer_->decode(line.ids));
      return line;
    }
    if (format_) {
      RenderedChat chat = format_->render(input, place, args_.generation_prompt);
      if (chat.unplaced_generation_line > 0 && args_.json) refuse_unplaced(chat);
      return {.text = chat.text,
              .ids = args_.render ? std::vector<int32_t>{} : tokenizer_->encode(chat.text),
              .generation = std::move(chat.generation)};
    }
    std::vector<int32_t> ids = tokenizer_->encode(input);
    ids.insert(ids.begin(), frame_.before.begin(), frame_.before.end());
    ids.insert(ids.end(), frame_.after.begin(), frame_.after.end());
    return {.ids = std::move(ids)};
  }

 private:
  [[noreturn]] static void refuse_unplaced(const RenderedChat& chat) {
    throw Unsupported(fmt::format(
        "the {{% generation %}} block of line {} of the chat template writes into a value, so that "
        "its place in the text is not known; leave out --json",
        chat.unplaced_generation_line));
  }

  const TokenizeArgs& args_;
  std::unique_ptr<Tokenizer> tokenizer_;
  TokenizerFrame frame_;
  std::optional<ChatFormat> format_;
};

}  // namespace

int run_tokenize(const TokenizeArgs& args) {
  RealFileSystem real;
  InputFiles files(real);
  const std::string name = tokenizer_place(files, args.tokenizer);
  if (args.to_files.output) {
    const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(files, name);
    return write_token_files(args, {files, real, *tokenizer, name});
  }
  const LineMaker maker(files, name, args);
  size_t number = 0;
  for (const Input& input : inputs_of(files, args)) {
    if (args.chat.is_chat && is_blank(input.text)) continue;
    ++number;
    const Line line = maker.line_of(
        input.text, input.place.empty() ? fmt::format("conversation {}", number) : input.place);
    print_now(args.json ? json_line(line, maker.tokenizer(), args) : plain_line(line, args));
  }
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace ds
