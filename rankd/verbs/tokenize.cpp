#include "rankd/verbs/tokenize.h"

#include <fmt/ranges.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <charconv>

#include "cli/standard_input.h"
#include "core/files/input_files.h"
#include "data/tokenizer/tokenizer_frame.h"
#include "generate/shown_text.h"
#include "rankd/verbs/input_texts.h"
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

std::vector<std::string> inputs_of(FileSystem& files, const TokenizeArgs& args) {
  std::vector<std::string> inputs = args.texts;
  const auto add = [&](std::string text) {
    if (!args.lines) {
      inputs.push_back(std::move(text));
      return;
    }
    for (std::string& line : lines_of(text)) inputs.push_back(std::move(line));
  };
  for (const std::string& path : args.files) add(read_text_file(files, path));
  if (args.texts.empty() && args.files.empty()) add(read_standard_input("tokenize"));
  return inputs;
}

std::string json_line(const std::string& text, const std::vector<int32_t>& ids,
                      const Tokenizer& tokenizer, const TokenizeArgs& args) {
  rapidjson::StringBuffer buffer;
  Writer out(buffer);
  const auto put = [&](const std::string& value) {
    out.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
  };
  out.StartObject();
  if (args.decode) {
    out.Key("text");
    put(text);
  }
  out.Key("count");
  out.Uint64(ids.size());
  if (!args.count) {
    out.Key("ids");
    out.StartArray();
    for (const int32_t id : ids) out.Int(id);
    out.EndArray();
    out.Key("tokens");
    out.StartArray();
    for (const int32_t id : ids) put(as_utf8(tokenizer.in_text(id)));
    out.EndArray();
  }
  out.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

std::string plain_line(const std::string& text, const std::vector<int32_t>& ids,
                       const TokenizeArgs& args) {
  if (args.decode) return text + "\n";
  if (args.count) return fmt::format("{}\n", ids.size());
  return fmt::format("{}\n", fmt::join(ids, " "));
}

}  // namespace

int run_tokenize(const TokenizeArgs& args) {
  RealFileSystem real;
  InputFiles files(real);
  const std::string name = tokenizer_place(files, args.tokenizer);
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(files, name);
  if (!args.to_files.output.empty()) {
    return write_token_files(args, {files, real, *tokenizer, name});
  }
  TokenizerFrame frame;
  if (args.special_tokens) frame = read_frame(files, name, *tokenizer);
  for (const std::string& input : inputs_of(files, args)) {
    std::vector<int32_t> ids = args.decode ? ids_in(input) : tokenizer->encode(input);
    ids.insert(ids.begin(), frame.before.begin(), frame.before.end());
    ids.insert(ids.end(), frame.after.begin(), frame.after.end());
    const std::string text = args.decode ? as_utf8(tokenizer->decode(ids)) : "";
    print_now(args.json ? json_line(text, ids, *tokenizer, args) : plain_line(text, ids, args));
  }
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace ds
