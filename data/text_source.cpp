// Text files and JSON lines, plain or compressed, as one run of tokens.
#include <algorithm>

#include "core/index.h"
#include "data/byte_stream.h"
#include "data/cache/token_cache.h"
#include "data/dataset.h"
#include "data/json_lines.h"
#include "data/text_kind.h"
#include "data/text_tokens.h"
#include "data/tokenizer/token_parts.h"

namespace ds {
namespace {

// Looked at at the beginning, in the middle, at the end.
constexpr auto kSampleBytes = static_cast<int64_t>(kHeadBytes);

bool is_byte_tokenizer(const Tokenizer& tokenizer) {
  return dynamic_cast<const ByteTokenizer*>(&tokenizer) != nullptr;
}

// All ids in memory; those that are bytes take one byte each, others four.
template <class T>
std::shared_ptr<const TokenSource> in_memory(ByteStream& stream, const TextToEncode& text) {
  std::vector<T> tokens;
  int64_t documents = 0;
  ThreadPool caller(1);
  encode_text(stream, text, {}, caller, [&](std::span<const int32_t> ids, const TextPlace& after) {
    for (const int32_t id : ids) tokens.push_back(static_cast<T>(id));
    documents = after.documents;
  });
  return std::make_shared<TokenList<T>>(text.path, std::move(tokens), documents);
}

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

class TextFile {
 public:
  TextFile(FileSystem& file_system, std::string path, const Tokenizer& tokenizer,
           const TextOptions& options)
      : file_system_(file_system),
        path_(std::move(path)),
        tokenizer_(tokenizer),
        options_(options),
        file_(file_system_.open(path_)) {
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
    if (plain && is_byte_tokenizer(tokenizer_) && options_.after_text_file.text.empty()) {
      return open_raw_tokens(std::move(file_), mark_bytes(), 1, 1);
    }
    const TextToEncode text{path_, compression_, tokenizer_, options_};
    if (options_.cache != nullptr && options_.cache->wants(file_->size(), compression_)) {
      if (auto kept = options_.cache->open(file_system_, text)) return kept;
    }
    const std::unique_ptr<ByteStream> stream = open_byte_stream(std::move(file_), compression_);
    return is_byte_tokenizer(tokenizer_) ? in_memory<uint8_t>(*stream, text)
                                         : in_memory<int32_t>(*stream, text);
  }

 private:
  // Of a plain file that begins with a byte order mark.
  int64_t mark_bytes() const { return narrow<int64_t>(head_.size() - without_mark(head_).size()); }

  FileSystem& file_system_;
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
