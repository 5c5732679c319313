// The ~ of paths that no shell expanded, and names of a hub that are no paths.
#include "core/files/home.h"

#include <cstdlib>
#include <utility>

#include "core/files/hub_name.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {

namespace {

// Sets HOME, or takes it away (null), until the end of the scope.
class Home {
 public:
  explicit Home(const char* value) {
    if (const char* before = std::getenv("HOME")) before_ = before;
    set(value);
  }
  ~Home() { set(before_ ? before_->c_str() : nullptr); }
  Home(const Home&) = delete;  // two would put back the wrong one

 private:
  static void set(const char* value) {
    if (value != nullptr) {
      setenv("HOME", value, 1);
    } else {
      unsetenv("HOME");
    }
  }
  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("a ~ at the front is the home folder, elsewhere it is a letter", "[core]") {
  const Home home("/home/me");
  CHECK(expand_home("~") == "/home/me");
  CHECK(expand_home("~/") == "/home/me/");
  CHECK(expand_home("~/a/~") == "/home/me/a/~");
  for (const char* path : {"", "a", "/a/~", "a~", "./~", "~/"}) {
    CAPTURE(path);
    if (path[0] != '~') CHECK(expand_home(path) == path);
  }
}

TEST_CASE("the user data base knows the homes of other users, and ours where HOME is not set",
          "[core]") {
  const auto of_root = expand_home("~root/x");
  REQUIRE(of_root);
  CHECK(of_root->ends_with("/x"));
  CHECK(of_root->starts_with("/"));
  const Home home(nullptr);
  const auto ours = expand_home("~/x");
  if (ours) CHECK(ours->starts_with("/"));
  CHECK_FALSE(expand_home("~nobody-of-this-name"));
  CHECK(no_home_text("~nobody-of-this-name/x") ==
        "~nobody-of-this-name/x: no user has ~nobody-of-this-name as home folder; write "
        "./~nobody-of-this-name/x for a name that begins so");
}

TEST_CASE("a name of a hub is told how it comes onto this machine", "[core]") {
  MemoryFileSystem files;
  files.make_directories("/home/me");
  CHECK_THAT(hub_advice(files, "/home/me/gpt2", "model"),
             Catch::StartsWith("a model is a folder of this machine") &&
                 Catch::Contains("`hf download gpt2 --local-dir /home/me/gpt2`"));
  CHECK_THAT(hub_advice(files, "/home/me/some-org/Some-7B", "model"),
             Catch::Contains("hf download some-org/Some-7B --local-dir"));
  CHECK_THAT(hub_advice(files, "gpt2", "tokenizer"), Catch::Contains("hf download gpt2 "));
  for (const char* path : {"/home/me/a/b/c", "/home/me/tokenizer.json", "../x"}) {
    CAPTURE(path);
    CHECK_THAT(hub_advice(files, path, "model"),
               Catch::Contains("hf download NAME --local-dir DIR"));
  }
}

TEST_CASE("names of pickled weights are known", "[core]") {
  for (const char* name : {"/m/pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "a/b.pt",
                           "x.pth", "last.ckpt"}) {
    CAPTURE(name);
    CHECK(is_pickled(name));
  }
  for (const char* name : {"/m/data.bin", "model.safetensors", "/pytorch_model.bin/m", ""}) {
    CAPTURE(name);
    CHECK_FALSE(is_pickled(name));
  }
}

}  // namespace ds
