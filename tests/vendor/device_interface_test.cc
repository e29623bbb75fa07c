// Programs whose own kernels use NCCL's device interface get what those read from the vendor's library, behind our
// handles.
#include "device_interface.h"

#include <catch2/catch.hpp>

#include "vendor_world.h"

using namespace api_test;
using namespace vendor_test;

TEST_CASE("a device communicator is the vendor's, and the vendor gets its own handle") {
  const Environment environment(Variables{{"SCCL_VENDOR", FAULTY_VENDOR}});
  CHECK(failures(run_world(Mode::threads, 2, [](int rank, ncclComm_t comm) -> std::string {
          ncclDevComm made{};
          made.rank = -1;
          if (const ncclResult_t result = ncclDevCommCreate(comm, &kRequirements, &made); result != ncclSuccess)
            return describe("create", result);
          if (made.rank != rank) return "not the vendor's of this rank";
          ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
          if (ncclCommQueryProperties(comm, &properties) != ncclSuccess || !properties.deviceApiSupport ||
              properties.rank != rank)
            return "the properties are not the vendor's";
          const ncclTeam team = ncclTeamLsa(comm);
          if (team.nRanks != 2 || team.rank != rank) return "the team is not the vendor's";
          if (ncclTeamRankToLsa(comm, ncclTeamWorld(comm), 1 - rank) != 1 - rank) return "wrong rank in the team";
          if (const ncclResult_t result = ncclDevCommDestroy(comm, &made); result != ncclSuccess)
            return describe("destroy", result);
          return sums(comm, 2);
        })) == "");
}

TEST_CASE("a window has the vendor's handle for kernels, and serves our own functions by it") {
  const Environment environment(Variables{{"SCCL_VENDOR", FAULTY_VENDOR}});
  CHECK(failures(run_world(Mode::threads, 2, [](int rank, ncclComm_t comm) -> std::string {
          std::vector<int> buffer(1024, 0);
          ncclWindow_t window = nullptr;
          if (const ncclResult_t result =
                  ncclCommWindowRegister(comm, buffer.data(), buffer.size() * sizeof(int), &window, 0);
              result != ncclSuccess || window == nullptr)
            return describe("register", result);
          void* seen = nullptr;
          if (ncclGetLsaDevicePointer(window, 8, rank, &seen) != ncclSuccess || seen != &buffer[2])
            return "the vendor does not know the window";
          void* user = nullptr;
          if (ncclWinGetUserPtr(comm, window, &user) != ncclSuccess || user != buffer.data()) return "not our window";
          ncclDevComm made{};
          if (const ncclResult_t result = ncclDevCommCreate(comm, &kRequirements, &made); result != ncclSuccess)
            return describe("create", result);
          const int sent = 41 + rank;
          const int peer = 1 - rank;
          if (const ncclResult_t result = ncclPutSignal(&sent, 1, ncclInt32, peer, window, 4, 0, 0, 0, comm, nullptr);
              result != ncclSuccess)
            return describe("put", result);
          ncclWaitSignalDesc_t description{1, peer, 0, 0};
          if (ncclWaitSignal(1, &description, comm, nullptr) != ncclSuccess) return "wait";
          if (buffer[1] != 41 + peer) return "wrong data";
          if (ncclDevCommDestroy(comm, &made) != ncclSuccess) return "destroy";
          if (const ncclResult_t result = ncclCommWindowDeregister(comm, window); result != ncclSuccess)
            return describe("deregister", result);
          if (ncclCommWindowDeregister(comm, window) == ncclSuccess) return "a window is deregistered twice";
          return sums(comm, 2);
        })) == "");
}

TEST_CASE("where a process has opened several libraries, a window belongs to the one in use") {
  for (const char* path : {FAULTY_VENDOR, RCCL_VENDOR, FAULTY_VENDOR}) {
    const Environment environment(Variables{{"SCCL_VENDOR", path}});
    CHECK(failures(run_world(Mode::threads, 2, [](int rank, ncclComm_t comm) -> std::string {
            std::vector<int> buffer(1024, 0);
            ncclWindow_t window = nullptr;
            if (const ncclResult_t result = ncclCommWindowRegister(comm, buffer.data(), 4096, &window, 0);
                result != ncclSuccess || window == nullptr)
              return describe("register", result);
            void* seen = nullptr;
            if (ncclGetLsaDevicePointer(window, 8, rank, &seen) != ncclSuccess || seen != &buffer[2])
              return "the vendor does not know the window";
            return ncclCommWindowDeregister(comm, window) == ncclSuccess ? "" : "deregister";
          })) == "");
  }
}

TEST_CASE("without a vendor's library a device communicator is refused with the remedy, and nothing else suffers") {
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) -> std::string {
          ncclDevComm made{};
          const std::string wrong = fails(ncclDevCommCreate(comm, &kRequirements, &made), ncclInvalidUsage,
                                          {"ncclDevCommCreate", "SCCL_VENDOR", "NCCL"});
          if (!wrong.empty()) return wrong;
          // The last error is the process's: no thread may make the next one before the other has read this one.
          if (const std::string failed = sums(comm, 2); !failed.empty()) return failed;
          if (ncclDevCommDestroy(comm, &made) != ncclInvalidUsage) return "destroys what was never made";
          return sums(comm, 2);
        })) == "");
}

TEST_CASE("a library that fails in init refuses device communicators on all ranks, and windows are ours") {
  const Environment environment(
      Variables{{"SCCL_VENDOR", FAULTY_VENDOR}, {"FAULTY_VENDOR", "CommInitRankConfig:fail:1"}});
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) -> std::string {
          std::vector<int> buffer(1024, 0);
          ncclWindow_t window = nullptr;
          if (ncclCommWindowRegister(comm, buffer.data(), buffer.size() * sizeof(int), &window, 0) != ncclSuccess)
            return "register";
          ncclDevComm made{};
          const std::string wrong = fails(ncclDevCommCreate(comm, &kRequirements, &made), ncclInvalidUsage,
                                          {"rank 1", "ncclCommInitRankConfig", "SCCL_VENDOR"});
          if (!wrong.empty()) return wrong;
          if (ncclCommWindowDeregister(comm, window) != ncclSuccess) return "deregister";
          return sums(comm, 2);
        })) == "");
}

TEST_CASE("a device communicator whose making hangs is given up after its limit") {
  const Environment environment(Variables{
      {"SCCL_VENDOR", FAULTY_VENDOR}, {"FAULTY_VENDOR", "DevCommCreate:hang"}, {"SCCL_VENDOR_TIMEOUT_MS", "400"}});
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) -> std::string {
          ncclDevComm made{};
          return fails(ncclDevCommCreate(comm, &kRequirements, &made), ncclSystemError,
                       {"ncclDevCommCreate", "400 ms", FAULTY_VENDOR, "SCCL_VENDOR=never"});
        })) == "");
}

TEST_CASE("an error of the vendor's library in making a device communicator is told as ours") {
  const Environment environment(Variables{{"SCCL_VENDOR", FAULTY_VENDOR}, {"FAULTY_VENDOR", "DevCommCreate:fail"}});
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) -> std::string {
          ncclDevComm made{};
          const std::string wrong = fails(ncclDevCommCreate(comm, &kRequirements, &made), ncclInternalError,
                                          {"ncclDevCommCreate", "the test asked for it"});
          return wrong.empty() ? sums(comm, 2) : wrong;
        })) == "");
}

TEST_CASE("a program that was compiled with our header of the device interface is told to use NCCL's") {
  const Environment environment(Variables{{"SCCL_VENDOR", FAULTY_VENDOR}});
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) -> std::string {
          const ncclDevCommRequirements own = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
          ncclDevComm made{};
          return fails(ncclDevCommCreate(comm, &own, &made), ncclInvalidUsage, {"compiled", "NCCL's own header"});
        })) == "");
}

TEST_CASE("properties tell of a device interface where a library that has one is named") {
  for (const char* path : {FAULTY_VENDOR, "/nowhere/libnccl.so.2"}) {
    const Environment environment(Variables{{"SCCL_VENDOR", path}});
    const bool has = std::string(path) == FAULTY_VENDOR;
    CHECK(failures(run_world(Mode::threads, 2, [&](int rank, ncclComm_t comm) -> std::string {
            ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
            if (ncclCommQueryProperties(comm, &properties) != ncclSuccess) return "query";
            if (properties.deviceApiSupport != has) return "deviceApiSupport";
            return properties.rank == rank && properties.nRanks == 2 ? "" : "wrong place";
          })) == "");
  }
}
