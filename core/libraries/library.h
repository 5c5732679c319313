// Library: a shared library that is opened where it is needed, and not linked, so that one program
// runs on machines with it and without. Whoever needs what is not there is told which file was
// looked for, which function is missing, and where a machine gets the library from. It is looked
// for where the loader looks: LD_LIBRARY_PATH, the program's own paths, the loader's cache.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ds {

class Library;

// What a library is called, and what people have to know about it.
struct LibraryKind {
  std::string name;
  std::string purpose;               // "matrix products on GPUs"
  std::vector<std::string> sonames;  // in order of preference: the first that opens is taken
  std::string source;                // where a machine gets it from: "libnccl2 (apt)"
  // How one of this kind says its version, without which it is not known.
  std::optional<std::string> (*version)(const Library&) = nullptr;
};

// The name of a function that a library may have.
using FunctionName = const char*;

class Library {
 public:
  // Unsupported, with what the loader says to each soname.
  explicit Library(LibraryKind kind);
  ~Library();
  Library(Library&& other) noexcept;
  Library(const Library&) = delete;  // owns what the loader gave
  Library& operator=(const Library&) = delete;

  // The function as a pointer of type F, which has to be what the library's own header says.
  // Unsupported where there is none.
  template <class F>
  F function(FunctionName name) const {
    return reinterpret_cast<F>(require(name));
  }
  // Null where there is none.
  template <class F>
  F find(FunctionName name) const {
    return reinterpret_cast<F>(address_of(name));
  }

  // The loader's, for headers that look functions up by themselves.
  void* handle() const { return handle_; }

  const LibraryKind& kind() const { return kind_; }
  const std::string& file() const { return file_; }  // that was opened
  const std::optional<std::string>& version() const { return version_; }

 private:
  void* address_of(FunctionName name) const;
  void* require(FunctionName name) const;

  LibraryKind kind_;
  void* handle_ = nullptr;
  std::string file_;
  std::optional<std::string> version_;
};

}  // namespace ds
