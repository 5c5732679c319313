#include "core/files/input_files.h"

#include <utility>

namespace ds {
namespace {

// What a call of the file system below says, in terms of an input.
template <class Call>
auto as_input(const Call& call) -> decltype(call()) {
  try {
    return call();
  } catch (const NotAFile& error) {
    throw DataError(error.what());
  } catch (const IoError& error) {
    throw InputMissing(error.what());
  }
}

class InputFile final : public File {
 public:
  explicit InputFile(std::unique_ptr<File> inner) : File(inner->path()), inner_(std::move(inner)) {}

  int64_t size() const override {
    return as_input([&] { return inner_->size(); });
  }
  void read(int64_t offset, std::span<std::byte> into) const override {
    as_input([&] { inner_->read(offset, into); });
  }
  bool is_cached() const override { return inner_->is_cached(); }
  void write(int64_t, std::span<const std::byte>) override { refuse("write"); }
  void allocate(int64_t) override { refuse("allocate"); }
  void sync() override { refuse("sync"); }

 private:
  [[noreturn]] void refuse(const char* operation) const {
    throw InternalError(fmt::format("{} {}: it is an input", operation, path()));
  }

  std::unique_ptr<File> inner_;
};

[[noreturn]] void refuse(const char* operation, const std::string& path) {
  throw InternalError(fmt::format("{} {}: inputs are only read", operation, path));
}

}  // namespace

std::unique_ptr<File> InputFiles::open(const std::string& path, Caching caching) {
  // The system would see another path than messages show.
  if (path.find('\0') != std::string::npos) {
    throw DataError(
        fmt::format("open {}: the path holds a NUL byte", path.substr(0, path.find('\0'))));
  }
  return as_input([&] { return std::make_unique<InputFile>(inner_.open(path, caching)); });
}

std::vector<DirectoryEntry> InputFiles::list(const std::string& path) const {
  return as_input([&] { return inner_.list(path); });
}

bool InputFiles::exists(const std::string& path) const {
  return as_input([&] { return inner_.exists(path); });
}

std::unique_ptr<File> InputFiles::create(const std::string& path, Caching) {
  refuse("create", path);
}
void InputFiles::rename(const std::string& from, const std::string&) { refuse("rename", from); }
void InputFiles::make_directory(const std::string& path) { refuse("make directory", path); }
void InputFiles::sync_directory(const std::string& path) { refuse("sync", path); }
void InputFiles::remove(const std::string& path) { refuse("remove", path); }
int64_t InputFiles::free_bytes(const std::string& path) const { refuse("free space of", path); }

}  // namespace ds
