#include "data/token_output.h"

#include <algorithm>
#include <utility>

#include "core/files/create_anew.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "data/indexed_dataset.h"
#include "data/llmc_header.h"

namespace ds {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 20;

// PREFIX_000000.bin, PREFIX_000001.bin, ...
std::string shard_name(const std::string& prefix, size_t shard) {
  return fmt::format("{}_{:06}.bin", prefix, shard);
}

std::string unfinished(const std::string& path) { return path + std::string(kUnfinished); }

// The files by which a set is known to be there.
std::vector<std::string> signs_of(const TokenOutputOptions& options) {
  if (options.format == TokenFormat::kLlmc) return {shard_name(options.prefix, 0)};
  return {options.prefix + ".bin", options.prefix + ".idx"};
}

// Another run may be quicker, so this is asked again before the files are named.
void refuse_existing(const FileSystem& files, const TokenOutputOptions& options) {
  if (options.replaces) return;
  for (const std::string& path : signs_of(options)) {
    if (!files.exists(path)) continue;
    throw UsageError(
        fmt::format("{} is there already: --force replaces it, --output names another", path));
  }
}

void refuse_unfinished(const FileSystem& files, const TokenOutputOptions& options) {
  if (options.replaces) return;
  for (const std::string& sign : signs_of(options)) {
    const std::string path = unfinished(sign);
    if (!files.exists(path)) continue;
    throw UsageError(fmt::format(
        "{} is there: another run is writing it, or was killed; --force replaces what is there",
        path));
  }
}

void require_vocabulary(std::span<const int32_t> ids, int64_t vocab_size) {
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocab_size) continue;
    throw DataError(fmt::format("token id {} is outside of the vocabulary of {}", id, vocab_size));
  }
}

// An item of the data set is a document, as Megatron-LM's own preprocessing makes them.
class IndexedOutput final : public TokenOutput {
 public:
  IndexedOutput(FileSystem& files, const TokenOutputOptions& options)
      : files_(files),
        options_(options),
        writer_(files, options.prefix,
                {IndexFormat::kMmap, best_item_type(options.vocab_size),
                 options.format == TokenFormat::kMegatron ? TypeCodes::kMegatron
                                                          : TypeCodes::kDeepSpeed}) {}

  void add(std::span<const int32_t> ids) override {
    require_vocabulary(ids, options_.vocab_size);
    writer_.add_tokens(ids);
  }
  void end_document() override {
    writer_.end_item();
    writer_.end_document();
  }
  std::vector<std::string> finish() override {
    refuse_existing(files_, options_);
    writer_.finish();
    return signs_of(options_);
  }

 private:
  FileSystem& files_;
  const TokenOutputOptions options_;
  IndexedDatasetWriter writer_;
};

class ShardOutput final : public TokenOutput {
 public:
  ShardOutput(FileSystem& files, const TokenOutputOptions& options)
      : files_(files),
        options_(options),
        type_(options.vocab_size <= 1 << 16 ? ItemType::kUint16 : ItemType::kUint32) {
    DS_CHECK(options.shard_tokens > 0 && options.shard_tokens <= kMostShardTokens,
             "token output: shards of {} tokens, expected 1 to {}", options.shard_tokens,
             kMostShardTokens);
    begin();  // a folder that cannot be written to is told before texts are read
  }
  // Nothing stays of a set that did not become whole, or what the next run replaces.
  ~ShardOutput() override {
    file_.reset();
    for (size_t i = 0; i < begun_ && !is_whole_; ++i) {
      const std::string path = i < named_ ? name_of(i) : unfinished(name_of(i));
      try {
        if (files_.exists(path)) files_.remove(path);
      } catch (const std::exception&) {
        return;
      }
    }
  }

  void add(std::span<const int32_t> ids) override {
    require_vocabulary(ids, options_.vocab_size);
    while (!ids.empty()) {
      if (tokens_ == options_.shard_tokens) {
        end();
        begin();
      }
      const int64_t room = options_.shard_tokens - tokens_;
      const auto part = ids.first(to_size(std::min(room, narrow<int64_t>(ids.size()))));
      append_tokens(part, type_, buffer_);
      tokens_ += narrow<int64_t>(part.size());
      ids = ids.subspan(part.size());
      if (buffer_.size() >= kFlushBytes) flush();
    }
  }
  void end_document() override {}

  std::vector<std::string> finish() override {
    end();
    refuse_existing(files_, options_);
    const size_t old = shards_that_are_there();
    std::vector<std::string> made;
    for (; named_ < begun_; ++named_) {
      files_.rename(unfinished(name_of(named_)), name_of(named_));
      made.push_back(name_of(named_));
    }
    for (size_t i = begun_; i < old; ++i) files_.remove(name_of(i));
    files_.sync_directory(parent_directory(options_.prefix));
    is_whole_ = true;
    return made;
  }

 private:
  std::string name_of(size_t shard) const { return shard_name(options_.prefix, shard); }

  // Counts those that follow each other without a gap. A file behind a gap is none of ours: others
  // have numbers in their names, too, such as a date.
  size_t shards_that_are_there() const {
    size_t count = 0;
    while (files_.exists(name_of(count))) ++count;
    return count;
  }

  void begin() {
    file_ = create_anew(files_, unfinished(name_of(begun_)));
    ++begun_;
    tokens_ = written_ = 0;
  }
  void flush() {
    file_->write(narrow<int64_t>(sizeof(LlmcHeader)) + written_, buffer_);
    written_ += narrow<int64_t>(buffer_.size());
    buffer_.clear();
  }
  void end() {
    flush();
    const LlmcHeader header = llmc_header(type_ == ItemType::kUint16 ? 2 : 4, tokens_);
    file_->write(0, std::as_bytes(std::span(header)));
    file_->sync();
    file_.reset();
  }

  FileSystem& files_;
  const TokenOutputOptions options_;
  const ItemType type_;
  std::unique_ptr<File> file_;
  std::vector<std::byte> buffer_;
  size_t begun_ = 0;  // shards
  size_t named_ = 0;  // of them, that have their names
  bool is_whole_ = false;
  int64_t tokens_ = 0;   // of the shard that is being written
  int64_t written_ = 0;  // bytes of them
};

}  // namespace

std::unique_ptr<TokenOutput> create_token_output(FileSystem& files,
                                                 const TokenOutputOptions& options) {
  const std::string folder = parent_directory(options.prefix);
  if (!files.exists(folder)) {
    throw UsageError(fmt::format("--output {}: there is no folder {}", options.prefix, folder));
  }
  refuse_existing(files, options);
  refuse_unfinished(files, options);
  if (options.format == TokenFormat::kLlmc) return std::make_unique<ShardOutput>(files, options);
  return std::make_unique<IndexedOutput>(files, options);
}

}  // namespace ds
