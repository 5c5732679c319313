#include "tests/support/files/memory_file_system.h"

#include <algorithm>
#include <cerrno>
#include <random>
#include <set>

namespace ds {

using NodePtr = std::shared_ptr<MemoryFileSystem::Node>;

struct MemoryFileSystem::Node {
  enum class Kind { kFile, kDirectory } kind;
  std::vector<std::byte> live, durable;                  // of a file
  std::map<std::string, NodePtr> entries, kept_entries;  // of a directory: live and durable
};

namespace {

using Node = MemoryFileSystem::Node;

// One atomic change of names: each assignment sets directory[name] to a node, or to nothing.
struct NameChange {
  struct Assignment {
    NodePtr directory;
    std::string name;
    NodePtr node;
  };
  std::vector<Assignment> assignments;

  bool touches(const NodePtr& directory) const {
    return std::any_of(assignments.begin(), assignments.end(),
                       [&](const Assignment& a) { return a.directory == directory; });
  }
};

void assign(std::map<std::string, NodePtr>& entries, const std::string& name, const NodePtr& node) {
  if (node == nullptr) {
    entries.erase(name);
  } else {
    entries[name] = node;
  }
}

std::vector<std::string> components(const std::string& path) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (!part.empty() && part != ".") parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

NodePtr make_node(Node::Kind kind) {
  auto node = std::make_shared<Node>();
  node->kind = kind;
  return node;
}

}  // namespace

struct MemoryFileSystem::Store {
  mutable std::mutex mutex;  // guards all below and every node
  NodePtr root = make_node(Node::Kind::kDirectory);
  std::vector<NameChange> pending;  // not yet durable, oldest first
  int64_t capacity = 0;

  NodePtr find(const std::string& path) const {
    NodePtr node = root;
    for (const std::string& part : components(path)) {
      const auto found = node->entries.find(part);
      if (found == node->entries.end()) return nullptr;
      node = found->second;
    }
    return node;
  }

  // The directory that holds the last component.
  NodePtr parent(std::string_view operation, const std::string& path) const {
    const NodePtr node = find(parent_directory(path));
    if (node == nullptr || node->kind != Node::Kind::kDirectory) {
      throw_io_error(operation, path, ENOENT);
    }
    return node;
  }

  void change(NameChange change) {
    for (const auto& a : change.assignments) assign(a.directory->entries, a.name, a.node);
    pending.push_back(std::move(change));
  }

  static int64_t bytes_below(const NodePtr& node) {
    auto total = static_cast<int64_t>(node->live.size());
    for (const auto& [name, child] : node->entries) total += bytes_below(child);
    return total;
  }
};

namespace {

class MemoryFile final : public File {
 public:
  MemoryFile(std::string path, std::shared_ptr<MemoryFileSystem::Store> store, NodePtr node,
             Caching caching)
      : File(std::move(path)),
        store_(std::move(store)),
        node_(std::move(node)),
        caching_(caching) {}

  int64_t size() const override {
    const std::scoped_lock lock(store_->mutex);
    return static_cast<int64_t>(node_->live.size());
  }

  bool is_cached() const override { return false; }

  void read(int64_t offset, std::span<std::byte> into) const override {
    check_alignment(offset, into);
    const std::scoped_lock lock(store_->mutex);
    const auto size = static_cast<int64_t>(node_->live.size());
    if (offset < 0 || offset + static_cast<int64_t>(into.size()) > size) {
      throw IoError(fmt::format("read {}: the file ends at byte {}, expected at least {} bytes",
                                path(), size, offset + static_cast<int64_t>(into.size())));
    }
    std::copy_n(node_->live.begin() + offset, into.size(), into.begin());
  }

  void write(int64_t offset, std::span<const std::byte> from) override {
    check_alignment(offset, from);
    const std::scoped_lock lock(store_->mutex);
    const int64_t wanted_end = offset + static_cast<int64_t>(from.size());
    const int64_t end = offset + grow(wanted_end, offset);
    std::copy_n(from.begin(), end - offset, node_->live.begin() + offset);
    if (end < wanted_end) {
      throw_io_error(fmt::format("write at byte {} of", end), path(), ENOSPC);
    }
  }

  void allocate(int64_t bytes) override {
    const std::scoped_lock lock(store_->mutex);
    if (grow(bytes, 0) < bytes) {
      throw_io_error(fmt::format("reserve {} bytes for", bytes), path(), ENOSPC);
    }
  }

  void sync() override {
    const std::scoped_lock lock(store_->mutex);
    node_->durable = node_->live;
  }

 private:
  // What O_DIRECT would refuse on a real disk.
  void check_alignment(int64_t offset, std::span<const std::byte> bytes) const {
    const auto address = reinterpret_cast<uintptr_t>(bytes.data());
    const bool aligned = offset % kSectorBytes == 0 && bytes.size() % kSectorBytes == 0 &&
                         address % kSectorBytes == 0;
    DS_CHECK(caching_ == Caching::kCached || aligned,
             "uncached access to {}: {} bytes at {} for offset {}, expected multiples of {}",
             path(), bytes.size(), address, offset, kSectorBytes);
  }

  // Grows the file to `end` or as far as the capacity allows; bytes available from `offset` on.
  int64_t grow(int64_t end, int64_t offset) {
    const auto size = static_cast<int64_t>(node_->live.size());
    if (end > size) {
      const int64_t free = store_->capacity - MemoryFileSystem::Store::bytes_below(store_->root);
      end = std::min(end, size + std::max<int64_t>(free, 0));
      if (end > size) node_->live.resize(static_cast<size_t>(end));
    }
    return std::max<int64_t>(0, end - offset);
  }

  std::shared_ptr<MemoryFileSystem::Store> store_;
  NodePtr node_;
  Caching caching_;
};

// Draws what each unsynced sector, size and name keeps.
class CrashDraw {
 public:
  CrashDraw(CrashModel model, uint64_t seed) : model_(model), random_(seed) {}

  bool keep() {
    if (model_ == CrashModel::kKeepAll) return true;
    if (model_ == CrashModel::kKeepNone) return false;
    return (random_() & 1) != 0;
  }

  std::vector<std::byte> content(const Node& node) {
    const bool live_size = keep();
    std::vector<std::byte> out(live_size ? node.live.size() : node.durable.size());
    for (size_t begin = 0; begin < out.size(); begin += kSectorBytes) {
      const size_t end = std::min(begin + size_t{kSectorBytes}, out.size());
      const std::vector<std::byte>& source = keep() ? node.live : node.durable;
      const size_t available = std::clamp(source.size(), begin, end);
      std::copy(source.begin() + static_cast<ptrdiff_t>(begin),
                source.begin() + static_cast<ptrdiff_t>(available),
                out.begin() + static_cast<ptrdiff_t>(begin));
    }
    return out;
  }

 private:
  CrashModel model_;
  std::mt19937_64 random_;
};

using Names = std::map<const Node*, std::map<std::string, NodePtr>>;

// The directory entries that survive, per directory reachable from `directory`.
void collect_kept_names(const NodePtr& directory, Names& names) {
  if (names.contains(directory.get())) return;
  names[directory.get()] = directory->kept_entries;
  for (const auto* entries : {&directory->entries, &directory->kept_entries}) {
    for (const auto& [name, node] : *entries) {
      if (node->kind == Node::Kind::kDirectory) collect_kept_names(node, names);
    }
  }
}

NodePtr copy_tree(const NodePtr& from, const Names& names, CrashDraw& draw) {
  NodePtr to = make_node(from->kind);
  if (from->kind == Node::Kind::kFile) {
    to->live = to->durable = draw.content(*from);
    return to;
  }
  const auto found = names.find(from.get());
  if (found == names.end()) return to;
  for (const auto& [name, node] : found->second) to->entries[name] = copy_tree(node, names, draw);
  to->kept_entries = to->entries;
  return to;
}

}  // namespace

MemoryFileSystem::MemoryFileSystem(int64_t capacity_bytes) : store_(std::make_shared<Store>()) {
  store_->capacity = capacity_bytes;
}

MemoryFileSystem::~MemoryFileSystem() = default;

std::unique_ptr<MemoryFileSystem> MemoryFileSystem::after_crash(CrashModel model,
                                                                uint64_t seed) const {
  const std::scoped_lock lock(store_->mutex);
  CrashDraw draw(model, seed);
  Names names;
  collect_kept_names(store_->root, names);
  for (const NameChange& change : store_->pending) {
    for (const auto& a : change.assignments) collect_kept_names(a.directory, names);
  }
  for (const NameChange& change : store_->pending) {
    if (!draw.keep()) continue;
    for (const auto& a : change.assignments) assign(names[a.directory.get()], a.name, a.node);
  }
  auto after = std::make_unique<MemoryFileSystem>(store_->capacity);
  after->store_->root = copy_tree(store_->root, names, draw);
  return after;
}

void MemoryFileSystem::flip_bit(const std::string& path, int64_t bit) {
  const std::scoped_lock lock(store_->mutex);
  const NodePtr node = store_->find(path);
  DS_CHECK(node != nullptr && bit / 8 < static_cast<int64_t>(node->live.size()),
           "flip_bit: {} has no bit {}", path, bit);
  node->live[static_cast<size_t>(bit / 8)] ^= std::byte{1} << (bit % 8);
  node->durable = node->live;
}

void MemoryFileSystem::truncate(const std::string& path, int64_t bytes) {
  const std::scoped_lock lock(store_->mutex);
  const NodePtr node = store_->find(path);
  DS_CHECK(node != nullptr, "truncate: there is no {}", path);
  node->live.resize(static_cast<size_t>(bytes));
  node->durable = node->live;
}

void MemoryFileSystem::set_capacity(int64_t bytes) {
  const std::scoped_lock lock(store_->mutex);
  store_->capacity = bytes;
}

int64_t MemoryFileSystem::used_bytes() const {
  const std::scoped_lock lock(store_->mutex);
  return Store::bytes_below(store_->root);
}

std::unique_ptr<File> MemoryFileSystem::open(const std::string& path, Caching caching) {
  const std::scoped_lock lock(store_->mutex);
  NodePtr node = store_->find(path);
  if (node == nullptr) throw_io_error("open", path, ENOENT);
  if (node->kind != Node::Kind::kFile) {
    throw NotAFile(fmt::format("open {}: it is a directory, not a regular file", path));
  }
  return std::make_unique<MemoryFile>(path, store_, std::move(node), caching);
}

std::unique_ptr<File> MemoryFileSystem::create(const std::string& path, Caching caching) {
  const std::scoped_lock lock(store_->mutex);
  const NodePtr directory = store_->parent("create", path);
  if (store_->find(path) != nullptr) throw_io_error("create", path, EEXIST);
  NodePtr node = make_node(Node::Kind::kFile);
  store_->change({{{directory, components(path).back(), node}}});
  return std::make_unique<MemoryFile>(path, store_, std::move(node), caching);
}

void MemoryFileSystem::rename(const std::string& from, const std::string& to) {
  const std::scoped_lock lock(store_->mutex);
  const std::string both = fmt::format("{} to {}", from, to);
  const NodePtr node = store_->find(from);
  if (node == nullptr) throw_io_error("rename", both, ENOENT);
  const NodePtr target = store_->find(to);
  if (target != nullptr && target->kind != node->kind) throw_io_error("rename", both, EISDIR);
  if (target != nullptr && !target->entries.empty()) throw_io_error("rename", both, ENOTEMPTY);
  store_->change({{{store_->parent("rename", from), components(from).back(), nullptr},
                   {store_->parent("rename", to), components(to).back(), node}}});
}

void MemoryFileSystem::make_directory(const std::string& path) {
  const std::scoped_lock lock(store_->mutex);
  const NodePtr directory = store_->parent("make directory", path);
  if (store_->find(path) != nullptr) throw_io_error("make directory", path, EEXIST);
  store_->change({{{directory, components(path).back(), make_node(Node::Kind::kDirectory)}}});
}

void MemoryFileSystem::sync_directory(const std::string& path) {
  const std::scoped_lock lock(store_->mutex);
  const NodePtr directory = store_->find(path);
  if (directory == nullptr) throw_io_error("fsync directory", path, ENOENT);
  std::vector<NameChange> still_pending;
  for (NameChange& change : store_->pending) {
    if (!change.touches(directory)) {
      still_pending.push_back(std::move(change));
      continue;
    }
    for (const auto& a : change.assignments) assign(a.directory->kept_entries, a.name, a.node);
  }
  store_->pending = std::move(still_pending);
}

void MemoryFileSystem::remove(const std::string& path) {
  const std::scoped_lock lock(store_->mutex);
  const NodePtr node = store_->find(path);
  if (node == nullptr) throw_io_error("remove", path, ENOENT);
  if (!node->entries.empty()) throw_io_error("remove", path, ENOTEMPTY);
  store_->change({{{store_->parent("remove", path), components(path).back(), nullptr}}});
}

std::vector<DirectoryEntry> MemoryFileSystem::list(const std::string& path) const {
  const std::scoped_lock lock(store_->mutex);
  const NodePtr directory = store_->find(path);
  if (directory == nullptr) throw_io_error("list", path, ENOENT);
  if (directory->kind != Node::Kind::kDirectory) throw_io_error("list", path, ENOTDIR);
  std::vector<DirectoryEntry> entries;
  for (const auto& [name, node] : directory->entries) {
    entries.push_back({name, node->kind == Node::Kind::kDirectory ? DirectoryEntry::Kind::kDirectory
                                                                  : DirectoryEntry::Kind::kFile});
  }
  return entries;
}

bool MemoryFileSystem::exists(const std::string& path) const {
  const std::scoped_lock lock(store_->mutex);
  return store_->find(path) != nullptr;
}

int64_t MemoryFileSystem::free_bytes(const std::string& /*path*/) const {
  const std::scoped_lock lock(store_->mutex);
  return store_->capacity - Store::bytes_below(store_->root);
}

}  // namespace ds
