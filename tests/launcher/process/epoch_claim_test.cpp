#include "launcher/process/files/epoch_claim.h"

#include "tests/support/catch.h"
#include "tests/support/files/fault_file_system.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

const std::string kRun = "/run";

MemoryFileSystem run_directory() {
  MemoryFileSystem files;
  files.make_directories("/run/logs");
  files.make_directories("/run/checkpoints");
  return files;
}

void write(FileSystem& files, const std::string& path, const std::string& text) {
  if (files.exists(path)) files.remove(path);
  files.create(path)->write(0, std::as_bytes(std::span(text)));
}

}  // namespace

TEST_CASE("the newest epoch is that of the checkpoints or of the claims, whatever else lies there",
          "[launcher]") {
  MemoryFileSystem files = run_directory();
  CHECK(newest_epoch(files, kRun) == 0);
  CHECK(newest_epoch(files, "/gone") == 0);
  write(files, "/run/checkpoints/epoch", "7 0123abcd\n");
  CHECK(newest_epoch(files, kRun) == 7);
  write(files, "/run/logs/epoch", "8\n");  // as earlier versions noted it
  CHECK(newest_epoch(files, kRun) == 8);
  CHECK(claim_epoch(files, kRun, 1, "me") == 9);
  CHECK(newest_epoch(files, kRun) == 9);
  for (const std::string junk : {"", "x", "-3", "9223372036854775807", "99999999999999999999"}) {
    CAPTURE(junk);
    write(files, "/run/checkpoints/epoch", junk);
    CHECK(newest_epoch(files, kRun) == 9);
  }
  for (const std::string name :
       {"generation.", "generation.012", "generation.12x", "generation.-1", "generations.99",
        "generation.99999999999999999999", "epoch.012", "epochs.99"}) {
    write(files, "/run/logs/" + name, "x");
  }
  CHECK(newest_epoch(files, kRun) == 9);
}

TEST_CASE("claims of earlier versions count, and go when they are older", "[launcher]") {
  MemoryFileSystem files = run_directory();
  write(files, "/run/logs/epoch.6", "theirs\n");
  CHECK(newest_epoch(files, kRun) == 6);
  CHECK(claim_epoch(files, kRun, 1, "me") == 7);
  REQUIRE(files.list("/run/logs").size() == 1);
  CHECK(files.list("/run/logs")[0].name == "generation.7");
}

TEST_CASE("a number is given out once", "[launcher]") {
  MemoryFileSystem files = run_directory();
  CHECK(claim_epoch(files, kRun, 1, "a") == 1);
  CHECK(claim_epoch(files, kRun, 1, "b") == 2);
  CHECK(claim_epoch(files, kRun, 10, "a") == 10);
  CHECK(claim_epoch(files, kRun, 3, "b") == 11);
  CHECK(files.list("/run/logs").size() == 1);  // what is older only takes room
  CHECK(files.read_text("/run/logs/generation.11", 100) == "b\n");
}

TEST_CASE("of two that ask at the same time each gets a number of its own", "[launcher]") {
  // The other one claims between our look and our claim, once or several times: then it forgets the
  // first.
  class Racing final : public FaultFileSystem {
   public:
    Racing(MemoryFileSystem& files, int claims)
        : FaultFileSystem(files), files_(files), claims_(claims) {}
    std::unique_ptr<File> create(const std::string& path, Caching caching) override {
      while (claims_ > 0) {
        --claims_;
        theirs = claim_epoch(files_, kRun, 1, "other");
      }
      return FaultFileSystem::create(path, caching);
    }
    int64_t theirs = 0;

   private:
    MemoryFileSystem& files_;
    int claims_;
  };
  const int claims = GENERATE(1, 2, 3);
  MemoryFileSystem files = run_directory();
  Racing racing(files, claims);
  const int64_t ours = claim_epoch(racing, kRun, 1, "me");
  CHECK(racing.theirs == claims);
  CHECK(ours == claims + 1);
  CHECK(claim_epoch(files, kRun, 1, "other") == claims + 2);
}

TEST_CASE("a full disk still has room for a name; other errors are told", "[launcher]") {
  MemoryFileSystem files = run_directory();
  FaultFileSystem full(files);
  full.fail_call(1, Fault::kDiskFull);  // the text
  CHECK(claim_epoch(full, kRun, 1, "me") == 1);
  FaultFileSystem broken(files);
  broken.fail_call(0, Fault::kIoError);
  CHECK_THROWS_AS(claim_epoch(broken, kRun, 1, "me"), IoError);
  CHECK(claim_epoch(files, kRun, 1, "me") == 2);
}

}  // namespace ds
