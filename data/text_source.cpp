// Text files and JSON lines, plain or compressed, as one run of tokens.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/index.h"
#include "data/byte_stream.h"
#include "data/dataset.h"
#include "data/json_lines.h"
#include "data/text_kind.h"
#include "data/tokenizer/token_parts.h"

namespace ds {
namespace {

// Looked at at the beginning, in the middle, at the end.
constexpr auto kSampleBytes = static_cast<int64_t>(kHeadBytes);

// Tokens that are bytes take one byte each, others four.
class TokenCollector {
 public:
  TokenCollector(std::string path, const Tokenizer& tokenizer)
      : path_(std::move(path)), tokenizer_(tokenizer), as_bytes_(is_byte_tokenizer(tokenizer)) {}

  static bool is_byte_tokenizer(const Tokenizer& tokenizer) {
    return dynamic_cast<const ByteTokenizer*>(&tokenizer) != nullptr;
  }

  // `where` begins the message of an error.
  void add_text(std::string_view text, const std::string& where) {
    if (as_bytes_) {
      bytes_.insert(bytes_.end(), text.begin(), text.end());
      return;
    }
    try {
      const std::vector<int32_t> ids = tokenizer_.encode(text);
      tokens_.insert(tokens_.end(), ids.begin(), ids.end());
    } catch (const DataError& error) {
      throw DataError(fmt::format("{}: {}", where, error.what()));
    }
  }
  void add_separator(const Separator& separator) {
    if (separator.text.empty()) return;
    const size_t before = tokens_.size();
    add_text(separator.text, "data.separator");
    const size_t added = tokens_.size() - before;
    if (separator.kind == Separator::Kind::kOneToken && !as_bytes_ && added != 1) {
      throw DataError(fmt::format(
          "the eos_token \"{}\" beside the tokenizer is {} tokens of it, expected one; give "
          "data.separator",
          separator.text, added));
    }
  }
  std::shared_ptr<const TokenSource> finish() {
    if (as_bytes_) return std::make_shared<TokenList<uint8_t>>(std::move(path_), std::move(bytes_));
    return std::make_shared<TokenList<int32_t>>(std::move(path_), std::move(tokens_));
  }

 private:
  std::string path_;
  const Tokenizer& tokenizer_;
  bool as_bytes_;
  std::vector<uint8_t> bytes_;
  std::vector<int32_t> tokens_;
};

std::string sample_of(const File& file, int64_t offset) {
  std::string sample(to_size(std::min(kSampleBytes, file.size() - offset)), '\0');
  file.read(offset, std::as_writable_bytes(std::span(sample)));
  return sample;
}

void require_text_file(const File& file, std::string_view head) {
  require_text(head, SampleFrom::kBeginning, file.path());
  if (file.size() <= kSampleBytes) return;
  for (const int64_t offset : {file.size() / 2, file.size() - kSampleBytes}) {
    require_text(sample_of(file, offset), SampleFrom::kInside, file.path());
  }
}

// All that is left of the stream.
std::string read_all(ByteStream& stream) {
  constexpr size_t kStep = size_t{1} << 20;
  std::string text;
  for (size_t size = 0;;) {
    text.resize(size + kStep);
    const size_t count = stream.read(std::span(text).subspan(size));
    size += count;
    if (count == 0) {
      text.resize(size);
      return text;
    }
  }
}

class TextFile {
 public:
  TextFile(FileSystem& file_system, std::string path, const Tokenizer& tokenizer,
           const TextOptions& options)
      : path_(std::move(path)),
        tokenizer_(tokenizer),
        options_(options),
        file_(file_system.open(path_)) {
    if (file_->size() == 0) throw DataError(fmt::format("{}: the file is empty", path_));
    head_ = sample_of(*file_, 0);
    compression_ = compression_of(head_);
    if (compression_ == Compression::kNone) require_text_file(*file_, head_);
  }

  // Opened, and refused where that can be told; the first of it is read where the rest is not plain
  // text.
  TextLook look() {
    const bool plain = compression_ == Compression::kNone;
    const bool lines = layout_of(path_) == TextLayout::kJsonLines;
    TextLook found{.most_tokens = plain ? file_->size() - mark_bytes() : kManyTokens,
                   .is_json_lines = lines};
    if (plain && !lines) {
      found.head = std::move(head_);
      return found;
    }
    const std::unique_ptr<ByteStream> stream = open_byte_stream(std::move(file_), compression_);
    if (lines) {
      first_json_text(*stream, path_, options_.field);
      return found;
    }
    found.head.resize(kHeadBytes);
    size_t size = 0;  // to the end, so that a file that is cut off shows it
    for (size_t count = 1; count > 0 && size < kHeadBytes; size += count) {
      count = stream->read(std::span(found.head).subspan(size));
    }
    found.head.resize(size);
    require_text(found.head, SampleFrom::kBeginning, path_);
    return found;
  }

  std::shared_ptr<const TokenSource> open() {
    const bool plain = compression_ == Compression::kNone && layout_of(path_) == TextLayout::kPlain;
    if (plain && TokenCollector::is_byte_tokenizer(tokenizer_) &&
        options_.after_text_file.text.empty()) {
      return open_raw_tokens(std::move(file_), mark_bytes(), 1);
    }
    TokenCollector out(path_, tokenizer_);
    const std::unique_ptr<ByteStream> stream = open_byte_stream(std::move(file_), compression_);
    if (layout_of(path_) == TextLayout::kJsonLines) {
      collect_lines(*stream, out);
    } else {
      const std::string text = read_all(*stream);
      if (compression_ != Compression::kNone) require_text(text, SampleFrom::kBeginning, path_);
      out.add_text(without_mark(text), path_);
      out.add_separator(options_.after_text_file);
    }
    return out.finish();
  }

 private:
  // Of a plain file that begins with a byte order mark.
  int64_t mark_bytes() const { return narrow<int64_t>(head_.size() - without_mark(head_).size()); }
  void collect_lines(ByteStream& stream, TokenCollector& out) const {
    for_each_json_text(stream, path_, options_.field, [&](std::string_view text, int64_t line) {
      out.add_text(text, fmt::format("{}:{}", path_, line));
      out.add_separator(options_.after_json_line);
    });
  }

  std::string path_;
  const Tokenizer& tokenizer_;
  const TextOptions& options_;
  std::unique_ptr<File> file_;
  std::string head_;  // of the file, before decompression
  Compression compression_ = Compression::kNone;
};

}  // namespace

TextLook look_at_text(FileSystem& file_system, const std::string& path,
                      const TextOptions& options) {
  return TextFile(file_system, path, ByteTokenizer(), options).look();
}

std::shared_ptr<const TokenSource> open_text(FileSystem& file_system,
                                             std::span<const std::string> paths,
                                             const Tokenizer& tokenizer,
                                             const TextOptions& options) {
  std::vector<std::shared_ptr<const TokenSource>> parts;
  for (const std::string& path : paths) {
    parts.push_back(TextFile(file_system, path, tokenizer, options).open());
    if (parts.back()->size() == 0) throw DataError(fmt::format("{}: there is no text in it", path));
  }
  if (parts.size() == 1) return parts[0];
  return std::make_shared<Concatenation>(std::move(parts));
}

}  // namespace ds
