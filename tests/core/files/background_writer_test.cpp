#include "core/tasks/background_writer.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

constexpr BackgroundWriter::Options kQuick{.retry = std::chrono::milliseconds(1)};
constexpr std::chrono::nanoseconds kLong = std::chrono::seconds(60);
constexpr std::chrono::nanoseconds kShort = std::chrono::milliseconds(20);

// Holds a job until it is opened.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool opened = false;
  bool reached = false;

  void pass() {
    std::unique_lock lock(mutex);
    reached = true;
    changed.notify_all();
    changed.wait(lock, [&] { return opened; });
  }
  void open() {
    const std::scoped_lock lock(mutex);
    opened = true;
    changed.notify_all();
  }
  void await() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached; });
  }
  bool comes() {  // or never will
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(20), [&] { return reached; });
  }
};

}  // namespace

TEST_CASE("jobs of a lane are done in order", "[core]") {
  BackgroundWriter writer;
  const BackgroundWriter::Lane lane = writer.add_lane("file", 1 << 20);
  const auto said = std::make_shared<std::string>();
  for (const char letter : std::string("abc")) {
    REQUIRE(writer.post(lane, 1, [said, letter] { *said += letter; }));
  }
  CHECK(writer.finish(kLong).empty());
  CHECK(*said == "abc");
}

TEST_CASE("a job that fails is tried again, and what follows it waits", "[core]") {
  BackgroundWriter writer(kQuick);
  const BackgroundWriter::Lane lane = writer.add_lane("file", 1 << 20);
  const auto said = std::make_shared<std::string>();
  const auto tries = std::make_shared<int>(0);
  writer.post(lane, 1, [said, tries] {
    if (++*tries < 5) throw IoError("no room");
    *said += "first ";
  });
  writer.post(lane, 1, [said] { *said += "second"; });
  CHECK(writer.finish(kLong).empty());
  CHECK(*said == "first second");
  const auto changes = writer.take_changes();
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].name == "file");
  CHECK(changes[0].error.empty());  // by now
  CHECK(writer.take_changes().empty());
}

TEST_CASE("lanes go on beside one that fails, which is named with its reason", "[core]") {
  BackgroundWriter writer(kQuick);
  const BackgroundWriter::Lane broken = writer.add_lane("broken", 1 << 20);
  const BackgroundWriter::Lane sound = writer.add_lane("sound", 1 << 20);
  writer.post(broken, 1, [] { throw IoError("no room"); });
  writer.post(broken, 1, [] {});
  const auto done = std::make_shared<std::atomic<bool>>(false);
  writer.post(sound, 1, [done] { *done = true; });
  const auto left = writer.finish(kShort);
  CHECK(*done);
  REQUIRE(left.size() == 1);
  CHECK(left[0].name == "broken");
  CHECK(left[0].jobs == 2);
  CHECK(left[0].error == "no room");
}

TEST_CASE("while a lane waits to be tried again, others do not", "[core]") {
  BackgroundWriter writer({.retry = std::chrono::hours(1)});
  const BackgroundWriter::Lane broken = writer.add_lane("broken", 1 << 20);
  const BackgroundWriter::Lane sound = writer.add_lane("sound", 1 << 20);
  const auto failed = std::make_shared<Gate>();
  const auto done = std::make_shared<Gate>();
  failed->open();
  done->open();
  writer.post(broken, 1, [failed] {
    failed->pass();
    throw IoError("no room");
  });
  failed->await();
  writer.post(sound, 1, [done] { done->pass(); });
  CHECK(done->comes());
}

TEST_CASE("what waits is bounded, and what is dropped is counted", "[core]") {
  BackgroundWriter writer;
  const BackgroundWriter::Lane lane = writer.add_lane("pipe", 100);
  const auto gate = std::make_shared<Gate>();
  REQUIRE(writer.post(lane, 60, [gate] { gate->pass(); }));
  REQUIRE(writer.post(lane, 40, [] {}));
  CHECK_FALSE(writer.post(lane, 1, [] {}));
  CHECK_FALSE(writer.post(lane, 1, [] {}));
  CHECK(writer.waiting(lane) == 2);
  const auto changes = writer.take_changes();
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].dropped == 2);
  gate->open();
  CHECK(writer.finish(kLong).empty());
  CHECK(writer.post(lane, 1000, [] {}));  // alone, anything has room
}

TEST_CASE("a job that hangs holds up neither its owner nor the end", "[core]") {
  const auto gate = std::make_shared<Gate>();
  {
    BackgroundWriter writer;
    const BackgroundWriter::Lane lane = writer.add_lane("pipe", 100);
    writer.post(lane, 1, [gate] { gate->pass(); });
    writer.post(lane, 1, [] {});
    gate->await();
    REQUIRE(writer.running());
    CHECK(writer.running()->name == "pipe");
    const auto left = writer.finish(kShort);
    REQUIRE(left.size() == 1);
    CHECK(left[0].jobs == 2);
    CHECK(left[0].error.empty());
  }
  gate->open();  // its thread ends by itself
}

TEST_CASE("slow progress is progress", "[core]") {
  BackgroundWriter writer;
  const BackgroundWriter::Lane lane = writer.add_lane("pipe", 100);
  const auto done = std::make_shared<std::atomic<int>>(0);
  for (int i = 0; i < 10; ++i) {
    writer.post(lane, 1, [done] {
      std::this_thread::sleep_for(
          std::chrono::milliseconds(30));  // longer together than the patience
      ++*done;
    });
  }
  CHECK(writer.finish(std::chrono::milliseconds(250)).empty());
  CHECK(*done == 10);
}

}  // namespace ds
