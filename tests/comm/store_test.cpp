#include "comm/store.h"

#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "core/error.h"
#include "tests/support/catch.h"

using namespace ds;
using namespace std::chrono_literals;

namespace {

struct PrivateDirectory {
  PrivateDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "ds-store-XXXXXX";
    path = mkdtemp(pattern.data());
  }
  ~PrivateDirectory() { std::filesystem::remove_all(path); }
  std::string path;
};

void check_store(Store& store) {
  store.set("a/b c", std::string("x\0y", 3));
  CHECK(store.get("a/b c", 0ms) == std::string("x\0y", 3));
  store.set("a/b c", "");
  CHECK(store.get("a/b c", 0ms).empty());
  CHECK_THROWS_WITH(store.get("never", 1ms), Catch::Contains("\"never\" within 1 ms"));
  CHECK(store.add("n", 2) == 2);
  CHECK(store.add("n", -1) == 1);
  CHECK(store.get("n", 0ms) == "1");
  store.wait("n", 1, 0ms);
  CHECK_THROWS_AS(store.wait("n", 2, 1ms), CommError);
  store.set("word", "seven");
  CHECK_THROWS_WITH(store.add("word", 1), Catch::Contains("\"seven\", expected a counter"));

  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) store.add("together", 1);
    });
  }
  store.wait("together", 100, 20s);
  for (auto& thread : threads) thread.join();
  CHECK(store.get("together", 0ms) == "100");

  std::string got;
  std::thread reader([&] { got = store.get("late", 20s); });
  store.set("late", "came");
  reader.join();
  CHECK(got == "came");
}

}  // namespace

TEST_CASE("the memory store keeps values, counts and waits", "[comm]") {
  MemoryStore store;
  check_store(store);
}

TEST_CASE("the file store keeps values, counts and waits, and leaves no temporary file", "[comm]") {
  const PrivateDirectory directory;
  FileStore store(directory.path);
  check_store(store);
  for (const auto& entry : std::filesystem::directory_iterator(directory.path)) {
    CHECK(entry.path().filename().string().find(".X") == std::string::npos);
    CHECK((entry.status().permissions() & std::filesystem::perms::others_all) ==
          std::filesystem::perms::none);
  }
}

TEST_CASE("the file store refuses a directory that others can enter", "[comm]") {
  const PrivateDirectory directory;
  REQUIRE(chmod(directory.path.c_str(), 0755) == 0);
  CHECK_THROWS_WITH(FileStore(directory.path), Catch::Contains("0700"));
  CHECK_THROWS_AS(FileStore(directory.path + "/absent"), CommError);
}
