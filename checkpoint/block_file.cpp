#include "checkpoint/block_file.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace ds {
namespace {

// Large enough that the disk sees few requests, small enough that two chunks are nothing beside a model.
constexpr int64_t kChunkBytes = 8 * kBlockBytes;
constexpr size_t kChunks = 3;
constexpr size_t kCachedBlocks = 32;

}  // namespace

void AlignedBuffer::Free::operator()(std::byte* data) const { std::free(data); }

AlignedBuffer::AlignedBuffer(size_t bytes)
    : data_(static_cast<std::byte*>(std::aligned_alloc(kUncachedAlignment, bytes))), size_(bytes) {
  if (data_ == nullptr) throw OutOfMemory(fmt::format("checkpoint: buffer of {} bytes", bytes));
}

BlockFileWriter::BlockFileWriter(FileSystem& file_system, const std::string& path,
                                 int64_t reserve_bytes)
    : file_(file_system.create(path, Caching::kUncached)), reserved_(reserve_bytes) {
  if (reserved_ > 0) file_->allocate(reserved_);
  for (size_t i = 0; i < kChunks; ++i) {
    idle_.push_back(std::make_unique<Chunk>(Chunk{AlignedBuffer(kChunkBytes)}));
  }
  filling_ = std::move(idle_.back());
  idle_.pop_back();
  thread_ = std::thread([this] { write_chunks(); });
}

BlockFileWriter::~BlockFileWriter() { stop_thread(); }

void BlockFileWriter::stop_thread() noexcept {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(queue_mutex_);
    request_ = Request::kStop;
  }
  queue_changed_.notify_all();
  thread_.join();
}

void BlockFileWriter::write_chunks() noexcept {
  while (true) {
    std::unique_ptr<Chunk> chunk;
    {
      std::unique_lock lock(queue_mutex_);
      queue_changed_.wait(lock, [&] { return !ready_.empty() || request_ == Request::kStop; });
      if (ready_.empty()) return;
      chunk = std::move(ready_.front());
      ready_.pop_front();
    }
    std::exception_ptr failure;
    try {
      file_->write(chunk->file_offset, chunk->buffer.bytes().first(chunk->used));
    } catch (...) {  // carried to the thread that owns the writer
      failure = std::current_exception();
    }
    const std::scoped_lock lock(queue_mutex_);
    if (failure != nullptr) {
      failure_ = failure;
      ready_.clear();
      request_ = Request::kStop;
    }
    chunk->used = 0;
    idle_.push_back(std::move(chunk));
    queue_changed_.notify_all();
    if (failure != nullptr) return;
  }
}

void BlockFileWriter::rethrow_failure() {
  const std::scoped_lock lock(queue_mutex_);
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

void BlockFileWriter::hash_chunk() {
  const auto bytes = filling_->buffer.bytes().first(filling_->used);
  for (size_t begin = 0; begin < bytes.size(); begin += kBlockBytes) {
    const size_t size = std::min(size_t{kBlockBytes}, bytes.size() - begin);
    digests_.push_back(digest_of(bytes.subspan(begin, size)));
  }
}

void BlockFileWriter::hand_over() {
  if (phase_ == Phase::kData) hash_chunk();
  filling_->file_offset = offset_ - static_cast<int64_t>(filling_->used);
  std::unique_lock lock(queue_mutex_);
  if (failure_ == nullptr) {
    ready_.push_back(std::move(filling_));
    queue_changed_.notify_all();
    queue_changed_.wait(lock, [&] { return !idle_.empty() || failure_ != nullptr; });
  }
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  filling_ = std::move(idle_.front());
  idle_.pop_front();
}

void BlockFileWriter::append(std::span<const std::byte> bytes) {
  rethrow_failure();
  while (!bytes.empty()) {
    const auto room = filling_->buffer.bytes().subspan(filling_->used);
    const size_t count = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), count);
    filling_->used += count;
    offset_ += static_cast<int64_t>(count);
    bytes = bytes.subspan(count);
    if (filling_->used == kChunkBytes) hand_over();
  }
}

void BlockFileWriter::append_zeros(int64_t count) {
  const std::vector<std::byte> zeros(static_cast<size_t>(count));
  append(zeros);
}

std::vector<std::string> BlockFileWriter::end_data() {
  DS_CHECK(phase_ == Phase::kData, "block file: end_data() twice");
  hash_chunk();
  phase_ = Phase::kIndex;
  return digests_;
}

void BlockFileWriter::finish() {
  DS_CHECK(offset_ % kUncachedAlignment == 0 && offset_ >= reserved_,
           "block file: {} bytes, reserved {}", offset_, reserved_);
  if (filling_->used > 0) hand_over();
  stop_thread();
  rethrow_failure();
  file_->sync();
  file_.reset();
}

const std::vector<std::byte>* BlockCache::find(const Key& key) {
  const auto found = where_.find(key);
  if (found == where_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return &found->second->bytes;
}

const std::vector<std::byte>& BlockCache::insert(const Key& key, std::vector<std::byte> block) {
  if (entries_.size() == kCachedBlocks) {
    where_.erase(entries_.back().key);
    entries_.pop_back();
  }
  entries_.push_front({key, std::move(block)});
  where_[key] = entries_.begin();
  return entries_.front().bytes;
}

BlockFileReader::BlockFileReader(FileSystem& file_system, const std::string& directory,
                                 const FileVote& expected)
    : key_(expected.rank) {
  const std::string path = join_path(directory, expected.name);
  try {
    file_ = file_system.open(path, Caching::kReadAhead);
  } catch (const InputMissing& error) {
    throw ValidationError(error.what());
  }
  const int64_t size = file_->size();
  if (size != expected.bytes || size < kTrailerBytes) {
    throw ValidationError(fmt::format("{}: truncated or not of this tag: {} bytes, expected {}", path,
                                      size, expected.bytes));
  }
  std::vector<std::byte> raw(kTrailerBytes);
  file_->read(size - kTrailerBytes, raw);
  const Trailer trailer = parse_trailer(path, raw, size);
  std::string text(static_cast<size_t>(trailer.index_bytes), '\0');
  file_->read(trailer.index_offset, std::as_writable_bytes(std::span(text)));
  const std::string found = digest_of(std::as_bytes(std::span(text)));
  if (found != trailer.index_digest) {
    throw ValidationError(fmt::format("{}: corrupt: the index at byte {} has digest {}, expected {}",
                                      path, trailer.index_offset, found, trailer.index_digest));
  }
  if (found != expected.digest) {
    throw ValidationError(fmt::format("{}: not the file of this tag: its index has digest {}, the "
                                      "manifest says {}", path, found, expected.digest));
  }
  index_ = parse_index(path, text);
  const bool belongs = index_.rank == expected.rank && index_.epoch == expected.epoch &&
                       index_.data_bytes <= trailer.index_offset;
  if (!belongs) {
    throw ValidationError(fmt::format("{}: the index is of rank {}, epoch {}, expected rank {}, epoch {}",
                                      path, index_.rank, index_.epoch, expected.rank, expected.epoch));
  }
}

int64_t BlockFileReader::block_bytes(int64_t block) const {
  return std::min(kBlockBytes, index_.data_bytes - block * kBlockBytes);
}

void BlockFileReader::read_block(int64_t block, std::span<std::byte> into) const {
  file_->read(block * kBlockBytes, into);
  const std::string found = digest_of(into);
  const std::string& expected = index_.blocks[static_cast<size_t>(block)];
  if (found != expected) {
    throw ValidationError(fmt::format("{}: corrupt: block {} (bytes [{}, {})) has digest {}, expected {}",
                                      file_->path(), block, block * kBlockBytes,
                                      block * kBlockBytes + block_bytes(block), found, expected));
  }
}

void BlockFileReader::read(int64_t offset, std::span<std::byte> into, BlockCache& cache) {
  DS_CHECK(offset >= 0 && offset + static_cast<int64_t>(into.size()) <= index_.data_bytes,
           "read bytes [{}, {}) of {}, which has {} data bytes", offset,
           offset + static_cast<int64_t>(into.size()), file_->path(), index_.data_bytes);
  while (!into.empty()) {
    const int64_t block = offset / kBlockBytes;
    const int64_t inside = offset % kBlockBytes;
    const auto count = static_cast<size_t>(
        std::min(block_bytes(block) - inside, static_cast<int64_t>(into.size())));
    if (inside == 0 && static_cast<int64_t>(count) == block_bytes(block)) {
      read_block(block, into.first(count));  // straight into the destination
    } else {
      const std::vector<std::byte>* bytes = cache.find({key_, block});
      if (bytes == nullptr) {
        std::vector<std::byte> fresh(static_cast<size_t>(block_bytes(block)));
        read_block(block, fresh);
        bytes = &cache.insert({key_, block}, std::move(fresh));
      }
      std::memcpy(into.data(), bytes->data() + inside, count);
    }
    into = into.subspan(count);
    offset += static_cast<int64_t>(count);
  }
}

void BlockFileReader::verify() {
  std::vector<std::byte> buffer(kBlockBytes);
  for (int64_t block = 0; block < static_cast<int64_t>(index_.blocks.size()); ++block) {
    read_block(block, std::span(buffer).first(static_cast<size_t>(block_bytes(block))));
  }
}

}  // namespace ds
