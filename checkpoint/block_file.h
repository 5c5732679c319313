// The bytes of a pieces file (checkpoint/format.h): written front to back past the page cache by a
// thread of its own while the next megabytes are copied and hashed; read in any order, every block
// checked against its digest before a byte of it is handed out.
#pragma once

#include <condition_variable>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/format.h"
#include "core/files/file.h"
#include "core/memory/aligned_buffer.h"

namespace ds {

// Confined to one thread. The first failure of the disk is thrown by the next call, then by every
// later one; nothing is retried.
class BlockFileWriter {
 public:
  // Storage is not reserved beforehand: turning reserved extents into written ones costs more than
  // finding new ones, and the writer has checked the free space.
  BlockFileWriter(FileSystem& file_system, const std::string& path);
  ~BlockFileWriter();
  BlockFileWriter(const BlockFileWriter&) = delete;  // owns a thread
  BlockFileWriter& operator=(const BlockFileWriter&) = delete;

  int64_t offset() const { return offset_; }
  void append(std::span<const std::byte> bytes);
  void append_zeros(int64_t count);
  // No more data follows; the digest of each block of it.
  std::vector<std::string> end_data();
  // Waits until everything is written, makes it durable, and closes the file. The length must be a
  // multiple of kUncachedAlignment.
  void finish();

 private:
  struct Chunk {
    AlignedBuffer buffer;
    size_t used = 0;
    int64_t file_offset = 0;
  };
  void hand_over();
  void hash_block();
  void write_chunks() noexcept;  // the thread
  void stop_thread() noexcept;
  void rethrow_failure();

  std::unique_ptr<File> file_;
  int64_t offset_ = 0;
  size_t hashed_ = 0;  // bytes of the chunk being filled whose digest is taken
  enum class Phase { kData, kIndex } phase_ = Phase::kData;
  std::vector<std::string> digests_;
  std::unique_ptr<Chunk> filling_;
  std::mutex queue_mutex_;  // guards the four below
  std::list<std::unique_ptr<Chunk>> idle_, ready_;
  std::exception_ptr failure_;
  enum class Request { kRun, kStop } request_ = Request::kRun;
  std::condition_variable queue_changed_;
  std::thread thread_;
};

// Blocks that were read and verified, shared by the files of a checkpoint, oldest dropped first.
class BlockCache {
 public:
  using Key = std::pair<int, int64_t>;  // file, block
  const std::vector<std::byte>* find(const Key& key);
  // Room for a block, taken from the least recently used where the cache is full.
  std::vector<std::byte> take_room(int64_t bytes);
  const std::vector<std::byte>& insert(const Key& key, std::vector<std::byte> block);

 private:
  struct Entry {
    Key key;
    std::vector<std::byte> bytes;
  };
  std::list<Entry> entries_;  // most recently used first
  std::map<Key, std::list<Entry>::iterator> where_;
};

// Confined to one thread; large reads are spread over a few of its own.
class BlockFileReader {
 public:
  // Opens a file and checks its length, trailer and index against what the manifest says.
  // ValidationError naming the file for any difference.
  BlockFileReader(FileSystem& file_system, const std::string& directory, const FileVote& expected);

  const FileIndex& index() const { return index_; }
  // Fills `into` from a byte of the data. ValidationError naming file, offset and block if the
  // bytes do not match their digest; then `into` is not to be used.
  void read(int64_t offset, std::span<std::byte> into, BlockCache& cache);
  void verify();  // all data

 private:
  void open_file(FileSystem& file_system, const std::string& path, const FileVote& expected);
  void read_index(const FileVote& expected);
  std::string read_text(int64_t offset, int64_t bytes) const;
  int64_t block_bytes(int64_t block) const;
  void take_scratch();
  // Whole blocks from `first` on, verified; `into` is empty to verify only. `scratch` holds a run.
  void read_run(int64_t first, int64_t count, std::span<std::byte> into,
                AlignedBuffer& scratch) const;
  void verify_block(int64_t block, std::span<const std::byte> bytes) const;
  // Blocks first .. first + into.size() / kBlockBytes - 1, all whole, by several threads.
  void read_blocks(int64_t first, int64_t count, std::span<std::byte> into);
  void read_part(int64_t offset, std::span<std::byte> into, BlockCache& cache);

  std::unique_ptr<File> file_;
  Caching caching_ = Caching::kCached;
  FileIndex index_;
  int key_;
  std::vector<AlignedBuffer> scratch_;  // one per thread, once data is read
};

}  // namespace ds
