// Text files and JSON lines, plain or compressed, as one run of tokens.
#include <algorithm>
#include <utility>

#include "core/values/index.h"
#include "data/cache/token_cache.h"
#include "data/text/byte_stream.h"
#include "data/text/json_lines.h"
#include "data/text/text_kind.h"
#include "data/tokens/dataset.h"
#include "data/tokens/text_tokens.h"
#include "data/tokens/token_parts.h"

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
  encode_text(stream, text, {}, caller, [&](const IdsOfText& part, const TextPlace& after) {
    for (const int32_t id : part.ids) tokens.push_back(static_cast<T>(id));
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
                   .text_bytes = text_bytes(),
                   .is_plain = plain && !lines,
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

  // Whether its bytes are the ids, wherever they lie.
  bool is_raw() const {
    return compression_ == Compression::kNone && layout_of(path_) == TextLayout::kPlain &&
           is_byte_tokenizer(tokenizer_) && options_.after_text_file.text.empty();
  }
  // Its text, about; compressed text is taken for four times as long.
  int64_t text_bytes() const {
    return file_->size() * (compression_ == Compression::kNone ? 1 : 4);
  }
  TextsToKeep::Text to_keep() const { return {path_, compression_}; }

  // Returns the bytes of the file.
  int64_t encode(const FileEncoding& encoding) {
    const int64_t bytes = file_->size();
    const auto stream = open_byte_stream(std::move(file_), compression_, INT64_MAX);
    encode_text(*stream, {path_, compression_, tokenizer_, options_, encoding.plain}, {},
                encoding.pool, encoding.on_ids);
    return bytes;
  }

  // Ids in the file, or in memory.
  std::shared_ptr<const TokenSource> open() {
    if (is_raw()) return open_raw_tokens(std::move(file_), mark_bytes(), 1, 1);
    const TextToEncode text{path_, compression_, tokenizer_, options_};
    const std::unique_ptr<ByteStream> stream = open_byte_stream(std::move(file_), compression_);
    return is_byte_tokenizer(tokenizer_) ? in_memory<uint8_t>(*stream, text)
                                         : in_memory<int32_t>(*stream, text);
  }

 private:
  // Returns the bytes of the byte order mark that a plain file begins with; 0 if it has none.
  int64_t mark_bytes() const { return narrow<int64_t>(head_.size() - without_mark(head_).size()); }

  FileSystem& file_system_;
  std::string path_;
  const Tokenizer& tokenizer_;
  const TextOptions& options_;
  std::unique_ptr<File> file_;
  std::string head_;  // of the file, before decompression
  Compression compression_ = Compression::kNone;
};

// Opens texts in order, those that are large, or many, by the cache if there is one.
class TextOpener {
 public:
  TextOpener(FileSystem& files, const Tokenizer& tokenizer, const TextOptions& options)
      : files_(files), tokenizer_(tokenizer), options_(options) {}

  std::vector<std::shared_ptr<const TokenSource>> open(std::span<const std::string> paths) {
    if (options_.cache == nullptr) {
      for (const std::string& path : paths) give_opened(path);
      return std::move(parts_);
    }
    const std::vector<Found> found = look_at(paths);
    const bool keeps_small = are_many(found);
    for (const Found& file : found) {
      const bool is_small = !options_.cache->wants(file.bytes);
      if (file.is_raw || (is_small && !keeps_small)) {
        give_small();
        give_opened(file.text.path);
      } else if (!is_small) {
        give_small();
        keep({file.text});
      } else {
        if (small_bytes_ + file.bytes > options_.cache->bytes_together()) give_small();
        small_.push_back(file.text);
        small_bytes_ += file.bytes;
      }
    }
    give_small();
    return std::move(parts_);
  }

 private:
  struct Found {
    TextsToKeep::Text text{};
    int64_t bytes = 0;  // of text, about
    bool is_raw = false;
  };

  std::vector<Found> look_at(std::span<const std::string> paths) const {
    std::vector<Found> out;
    for (const std::string& path : paths) {
      const TextFile file(files_, path, tokenizer_, options_);
      out.push_back({.text = file.to_keep(), .bytes = file.text_bytes(), .is_raw = file.is_raw()});
    }
    return out;
  }

  // Whether files that are too small for the cache are enough for it together.
  bool are_many(std::span<const Found> found) const {
    int64_t bytes = 0;
    for (const Found& file : found) {
      if (!file.is_raw && !options_.cache->wants(file.bytes)) bytes += file.bytes;
    }
    return bytes > 0 && options_.cache->wants(bytes);
  }

  void give_opened(const std::string& path) {
    give(TextFile(files_, path, tokenizer_, options_).open(), path);
  }

  void give(std::shared_ptr<const TokenSource> part, const std::string& path) {
    if (part->size() == 0) throw DataError(fmt::format("{}: there is no text in it", path));
    parts_.push_back(std::move(part));
  }

  void give_small() {
    if (!small_.empty()) keep(std::exchange(small_, {}));
    small_bytes_ = 0;
  }

  void keep(std::vector<TextsToKeep::Text> texts) {
    const TextsToKeep kept{std::move(texts), tokenizer_, options_};
    if (auto part = options_.cache->open(files_, kept)) {
      give(std::move(part), kept.texts.front().path);
      return;
    }
    for (const TextsToKeep::Text& text : kept.texts) give_opened(text.path);
  }

  FileSystem& files_;
  const Tokenizer& tokenizer_;
  const TextOptions& options_;
  std::vector<std::shared_ptr<const TokenSource>> parts_;
  std::vector<TextsToKeep::Text> small_;
  int64_t small_bytes_ = 0;
};

}  // namespace

TextLook look_at_text(FileSystem& file_system, const std::string& path,
                      const TextOptions& options) {
  return TextFile(file_system, path, ByteTokenizer(), options).look();
}

int64_t encode_text_file(FileSystem& files, const std::string& path, const FileEncoding& encoding) {
  return TextFile(files, path, encoding.tokenizer, encoding.options).encode(encoding);
}

std::shared_ptr<const TokenSource> open_text(FileSystem& file_system,
                                             std::span<const std::string> paths,
                                             const Tokenizer& tokenizer,
                                             const TextOptions& options) {
  std::vector<std::shared_ptr<const TokenSource>> parts =
      TextOpener(file_system, tokenizer, options).open(paths);
  if (parts.size() == 1) return parts[0];
  return std::make_shared<Concatenation>(std::move(parts));
}

}  // namespace ds
