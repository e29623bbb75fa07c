#include "runtime/membership/membership.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <new>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/os/folder.h"
#include "base/os/out_of_memory.h"
#include "base/os/sealed_file.h"
#include "base/settings/log.h"
#include "base/siphash.h"
#include "kernels/host/messages/copy_comparison.h"
#include "platform/host/fences.h"
#include "platform/host/peer_memory.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/choice/tuning/device_tuning_place.h"
#include "runtime/control/schedule_updates.h"
#include "runtime/membership/hosts/engine_agreement.h"
#include "runtime/membership/hosts/host_links.h"
#include "runtime/membership/hosts/host_rails.h"
#include "runtime/membership/hosts/host_topology.h"
#include "runtime/membership/hosts/host_values.h"
#include "runtime/membership/hosts/probe_memory.h"
#include "runtime/membership/hosts/protocol_version.h"
#include "runtime/membership/links.h"
#include "runtime/membership/shared_memory.h"
#include "runtime/membership/tuner_situation.h"
#include "runtime/transport/p2p/device_exchange.h"
#include "runtime/transport/proxy/device_proxy.h"
#include "runtime/transport/stream/stream_path.h"
#include "topology/formats/json.h"

namespace sccl::runtime {
namespace {

// What every rank tells the others. Sent as plain bytes: all ranks run the same library version on the same machine
// type.
constexpr std::uint32_t kProtocolVersion = 38;

struct PeerRecord {
  VersionHead head{kProtocolVersion, {}};
  std::int32_t process = 0;
  std::uint64_t host = 0;
  std::uint64_t process_token = 0;  // of host::OwnLife
  std::uint64_t probe_address = 0;  // of a Probe in this rank's private memory
  std::uint64_t probe_pattern = 0;
  std::int32_t place = -1;
  std::uint8_t has_tuning = 0;  // the cache holds measured times
  NamedLinks named_links{};     // only rank 0's value counts
  std::uint8_t writes_description = 0;
  std::uint8_t lets_others_fence = 0;
  std::uint8_t has_tuner_plugin = 0;  // only rank 0's value counts
  SettingsRecord settings;
  DeviceRecord device;
};
static_assert(std::is_trivially_copyable_v<PeerRecord>);

template <typename T>
Bytes to_bytes(const T& value) {
  Bytes bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <typename T>
T from_bytes(const Bytes& bytes, Rank rank) {
  if (bytes.size() != sizeof(T))
    fail(ErrorCode::invalid_usage,
         "rank {} sent {} bytes during init instead of {}: use one library version on all ranks", rank, bytes.size(),
         sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// On the links between some ranks, one of which has this process's device.
LinkQuestion question_on(const std::vector<Rank>& ranks, const std::vector<PeerRecord>& records,
                         const std::optional<gpu::Device>& device) {
  LinkQuestion question;
  question.ranks = static_cast<int>(ranks.size());
  std::vector<DeviceRecord> devices;
  for (const Rank rank : ranks) {
    const PeerRecord& record = records[static_cast<std::size_t>(rank)];
    devices.push_back(record.device);
    question.places.push_back(record.place);
  }
  if (!all_have_devices(devices)) return question;
  question.vendor = device->driver->vendor;
  for (const DeviceRecord& record : devices) question.busids.emplace_back(record.busid.data());
  return question;
}

// One line for each setting in which hosts differ.
void tell_different_settings(const std::vector<PeerRecord>& records, const HostGroups& groups) {
  std::vector<Settings> settings;
  std::vector<std::string> hosts;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    settings.push_back(from_record(records[rank].settings));
    settings.back().slot_bytes = records[rank].settings.slot_bytes_between_hosts;
    hosts.push_back(groups.names[static_cast<std::size_t>(groups.of[rank])]);
  }
  for (const SettingValues& setting : different_settings(settings))
    log::info(log::Subsystem::init, "{} differs: {}: {} counts at all ranks: set it alike on all hosts", setting.name,
              values_by_host(setting.values, hosts), setting.least_counts ? "the least" : "rank 0's");
}

bool tuning_files_exist() {
  const auto folder = cache_folder();
  const auto is_one = [](const std::string& name) { return name.ends_with(".tuning"); };
  return folder && std::ranges::any_of(names_in(folder->c_str()), is_one);
}

struct DirectVerdict {
  std::uint64_t possible = 0;
  CopyTimes times;
};

class InitExchange {
 public:
  InitExchange(const InitRequest& request, Bootstrap& bootstrap, Deadline deadline, const std::atomic<bool>& abort)
      : deadline_(deadline), bootstrap_(bootstrap), net_name_(request.net_name), abort_(abort) {
    membership_.rank = request.rank;
    membership_.ranks = request.ranks;
    membership_.links.place = request.place;
    membership_.identity.number = bootstrap_.identity();
    device_ = request.device;
    most_blocks_ = request.most_blocks;
  }

  Membership run() {
    try {
      introduce();
      agree_on_topology();
      share_memory();
      probe_direct_access();
      share_devices();
      settle_protocol();
      share_tuning();
      share_tuner_choices();
      return std::move(membership_);
    } catch (const std::exception& error) {
      kept_.keep(probe_memory_);
      bootstrap_.fail(cause_of(error));
      tell_those_ready(membership_, error);
      throw;
    }
  }

 private:
  Peer& peer(Rank rank) { return membership_.peers[static_cast<std::size_t>(rank)]; }

  // Exchanges settings first: the size of the shared memory depends on rank 0's settings.
  void introduce() {
    const Settings mine = settings_from_environment(membership_.ranks);
    auto& [probe, cells] = probe_memory_.front();
    cells.assign(static_cast<std::size_t>(membership_.ranks), 0);
    probe.cells_address = reinterpret_cast<std::uint64_t>(cells.data());
    probe.pattern =
        0x5cc1ull << 48 ^ reinterpret_cast<std::uint64_t>(&probe) ^ static_cast<std::uint64_t>(membership_.rank) << 32;
    PeerRecord record;
    membership_.process.life = host::OwnLife::of_process();
    record.process = ::getpid();
    record.process_token = membership_.process.life->token();
    record.host = host_hash();
    record.probe_pattern = probe.pattern;
    record.probe_address = reinterpret_cast<std::uint64_t>(&probe);
    record.settings = to_record(mine);
    record.settings.slot_bytes_between_hosts = slot_bytes_between_hosts(membership_.ranks, mine);
    record.has_tuning = membership_.rank == 0 && mine.tune != TuneMode::off && tuning_files_exist() ? 1 : 0;
    record.place = membership_.links.place;
    record.named_links = named_links();
    record.writes_description = writes_description(membership_.rank) ? 1 : 0;
    if (device_) record.device = record_of(*device_, most_blocks_);
    ::gethostname(record.head.host_name.data(), record.head.host_name.size() - 1);
    record.lets_others_fence = host::let_others_fence() ? 1 : 0;
    if (membership_.rank == 0 && membership_.ranks > 1) tuner_library_ = PluginLibrary::open(kTunerPlugin);
    record.has_tuner_plugin = tuner_library_ != nullptr ? 1 : 0;
    records_ = exchange(record);
    check_records(mine);
    membership_.process.heavy_fences =
        std::all_of(records_.begin(), records_.end(), [](const PeerRecord& one) { return one.lets_others_fence != 0; });
  }

  std::vector<PeerRecord> exchange(const PeerRecord& record) {
    const std::vector<Bytes> all = bootstrap_.all_gather(to_bytes(record), deadline_);
    check_versions(all);
    std::vector<PeerRecord> records;
    for (const Bytes& bytes : all) records.push_back(from_bytes<PeerRecord>(bytes, static_cast<Rank>(records.size())));
    return records;
  }

  void check_records(const Settings& mine) {
    membership_.settings = from_record(records_.front().settings);
    membership_.settings.topology = mine.topology;  // agree_on_topology() settles the topology
    for (const PeerRecord& record : records_) {     // slots and areas must fit every rank's memory limit
      Settings& agreed = membership_.settings;
      agreed.slot_bytes = std::min<std::size_t>(agreed.slot_bytes, record.settings.slot_bytes);
      agreed.arrival_bytes = std::min<std::size_t>(agreed.arrival_bytes, record.settings.arrival_bytes);
    }
    for (const std::string& difference : differences(mine, from_record(records_.front().settings)))
      log::info(log::Subsystem::init, "rank {}: {} at rank 0, whose settings all ranks use", membership_.rank,
                difference);
    group_hosts();
  }

  void group_hosts() {
    std::vector<std::uint64_t> hosts;
    std::vector<std::string> names;
    for (const PeerRecord& record : records_) {
      hosts.push_back(record.host);
      names.emplace_back(record.head.host_name.data());
    }
    membership_.hosts = group_by_host(hosts, names);
    if (!membership_.hosts.are_several()) return;
    check_host_count(membership_.hosts);
    if (membership_.rank == 0) tell_different_settings(records_, membership_.hosts);
    Settings& settings = membership_.settings;
    if (membership_.rank == 0 && settings.tune != TuneMode::off)
      log::info(log::Subsystem::init,
                "the ranks run on {} hosts: measured choices and background synthesis are not used over hosts",
                membership_.hosts.count());
    settings.tune = TuneMode::off;
    settings.direct_allowed = false;
    const auto slot_bytes = [](const PeerRecord& one) { return one.settings.slot_bytes_between_hosts; };
    settings.slot_bytes = slot_bytes(*std::ranges::min_element(records_, {}, slot_bytes));
  }

  // Makes no exchange if no links are named, no device is used and no rank writes the description.
  void agree_on_topology() {
    const bool are_several = membership_.hosts.are_several();
    std::vector<Rank> all(records_.size());
    std::iota(all.begin(), all.end(), 0);
    LinkQuestion question = question_on(all, records_, device_);
    question.named = membership_.settings.topology;
    for (const PeerRecord& record : records_) question.describe = question.describe || record.writes_description != 0;
    if (are_several) {
      question.hosts = HostCount::several;
      question.vendor.reset();
    }
    const NamedLinks named = records_.front().named_links;
    const bool names_links = are_several ? named == NamedLinks::of_all_hosts : named != NamedLinks::none;
    if (!names_links && !question.describe && (!question.vendor || membership_.ranks == 1)) return;
    Links links = agree_on_links(membership_.rank, question, bootstrap_, deadline_);
    if (!links.places.empty()) membership_.links.place = links.places[static_cast<std::size_t>(membership_.rank)];
    membership_.links.topology = std::move(links.topology);
    membership_.links.named = membership_.links.topology.has_value();
  }

  // Rank 0 sends the measured times and the learned choices of its cache. One exchange for each, made only if rank 0
  // may have some.
  void share_tuning() {
    const Settings& settings = membership_.settings;
    std::string why;
    if (settings.dispatch == Dispatch::learned) {
      const std::string text = from_rank_0([&] { return learned_text(); });
      if (auto learned = learned_from_text(text, why)) membership_.tuning.measured.learned = *std::move(learned);
    }
    const bool first = membership_.rank == 0;
    if (membership_.hosts.are_several()) return;
    const bool has_tuning = records_.front().has_tuning != 0;
    if (first && (has_tuning || settings.tune == TuneMode::online)) {
      const std::string links = membership_.links.topology ? topology::to_json(*membership_.links.topology).dump() : "";
      membership_.tuning.measured.place = membership_.on_device
                                              ? device_tuning_place(links, membership_.ranks, *membership_.on_device)
                                              : tuning_place(links, membership_.ranks, membership_.reach);
    }
    if (has_tuning) {
      const std::string text = from_rank_0([&] {
        return to_text(membership_.tuning.measured.place,
                       load_tuning(*cache_folder(), membership_.tuning.measured.place));
      });
      if (auto table = from_text(text, nullptr, why)) membership_.tuning.measured.table = *std::move(table);
    }
  }

  // Rank 0 asks its plugin for all ranks. One exchange, only when there is a plugin, which learns on how many hosts the
  // ranks are; of one that cannot be used the text is empty.
  void share_tuner_choices() {
    if (records_.front().has_tuner_plugin == 0) return;
    const std::string text = from_rank_0([&]() -> std::string {
      std::vector<int> ranks_by_host;
      for (const std::vector<Rank>& ranks : membership_.hosts.ranks)
        ranks_by_host.push_back(static_cast<int>(ranks.size()));
      if (ranks_by_host.empty()) ranks_by_host = {membership_.ranks};
      membership_.tuning.plugin = TunerPlugin::open(
          std::move(tuner_library_), {membership_.identity.number, membership_.ranks, std::move(ranks_by_host)});
      if (!membership_.tuning.plugin) return "";
      return TunerChoices::ask(*membership_.tuning.plugin, tuner_situation(membership_)).to_text();
    });
    membership_.tuning.wishes = TunerChoices::from_text(text);
  }

  template <typename Make>
  std::string from_rank_0(Make&& make) {
    const std::string mine = membership_.rank == 0 ? make() : "";
    const Bytes text = bootstrap_.all_gather(std::as_bytes(std::span(mine)), deadline_).front();
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  // On named links, what was learned for them; else the choices learned with one process per rank (the usual case)
  // serve every arrangement of ranks.
  std::string learned_text() const {
    const auto folder = cache_folder();
    const auto& links = membership_.links.topology;
    const std::string place =
        links ? learned_place(*links) : tuning_place("", membership_.ranks, Reach::through_system).machine;
    const LearnedDispatcher learned = folder ? load_learned(*folder, place) : LearnedDispatcher{};
    if (learned.empty())
      log::info(log::Subsystem::tuning,
                "SCCL_DISPATCH=learned: nothing was learned {}: run sccl tune{}; continuing with the model",
                links ? "for " + place : "on this machine", links ? " --topo" : "");
    return to_text(learned);
  }

  void share_memory() {
    // Reductions by the ranks that are there need memory that the ranks of a host share, and no links to keep to.
    const bool has_arrival = !membership_.links.topology && !device_;
    membership_.layout = MemoryLayout(membership_.ranks, membership_.settings.slot_bytes,
                                      membership_.links.topology ? ScheduleUpdates::kBytes : 0,
                                      has_arrival ? membership_.settings.arrival_bytes : 0);
    const auto segment = host::Segment::create(membership_.layout.total_bytes());
    new (segment->data()) SharedState;
    if (membership_.links.topology) new (membership_.layout.schedule_updates(segment->data())) ScheduleUpdates;
    SharingRequest request{membership_.rank,          membership_.hosts,     {},
                           *membership_.process.life, {segment, {}, {}, {}}, 0};
    for (const PeerRecord& record : records_) request.process_tokens.push_back(record.process_token);
    const bool are_several = membership_.hosts.are_several();
    const Rank first = membership_.hosts.beside(membership_.rank).front();
    if (are_several) {
      request.mirror_bytes = MirrorTable::bytes(membership_.ranks);
      request.mine.wake = std::make_shared<const FileDescriptor>(AgentBell::make_wake());
    }
    if (are_several && first == membership_.rank) {
      request.mine.mirrors = host::Segment::create(request.mirror_bytes);
      MirrorTable::construct(*request.mine.mirrors, membership_.ranks);
    }
    shared_ = share_within_hosts(request, bootstrap_, deadline_);
    segment->close_descriptor();
    if (request.mine.mirrors) request.mine.mirrors->close_descriptor();
    const MirrorTable mirrors(shared_.ranks[static_cast<std::size_t>(first)].mirrors);
    membership_.peers.resize(static_cast<std::size_t>(membership_.ranks));
    std::vector<Member> members;
    for (Rank rank = 0; rank < membership_.ranks; ++rank) members.push_back(member_of(rank, mirrors));
    ScheduleUpdates* updates = nullptr;  // none over hosts
    if (membership_.links.topology && !are_several)
      updates = reinterpret_cast<ScheduleUpdates*>(membership_.layout.schedule_updates(peer(0).segment->data()));
    membership_.control = ControlPlane(membership_.rank, std::move(members), updates);
    if (are_several) join_hosts(mirrors);
  }

  // Makes the control plane's entry for a rank, and fills in the rank's Peer.
  Member member_of(Rank rank, const MirrorTable& mirrors) {
    const PeerRecord& record = records_[static_cast<std::size_t>(rank)];
    const SharedByRank& shared = shared_.ranks[static_cast<std::size_t>(rank)];
    Peer& entry = peer(rank);
    Member member;
    entry.process = member.process = record.process;
    member.process_token = record.process_token;
    member.host =
        membership_.hosts.names[static_cast<std::size_t>(membership_.hosts.of[static_cast<std::size_t>(rank)])];
    if (membership_.hosts.is_remote(membership_.rank, rank)) {
      entry.locality = member.locality = Locality::remote;
      member.mirror = &mirrors.mirror(rank);
      member.state = &mirrors.mirror(rank).state;
      member.memory = mirrors.segment();
      return member;
    }
    const bool is_neighbour = record.process_token == membership_.process.life->token();
    entry.locality = member.locality = is_neighbour ? Locality::process : Locality::host;
    member.life = shared.life;
    entry.segment = shared.memory;
    member.state = &membership_.layout.state(entry.segment->data());
    member.memory = entry.segment;
    return member;
  }

  // Starts the agent, which shows this rank's state to other hosts, and the engine that moves data between hosts.
  void join_hosts(const MirrorTable& mirrors) {
    AgentRequest request{membership_.rank, membership_.hosts, {}, {mirrors, {}}};
    for (Rank rank = 0; rank < membership_.ranks; ++rank) {
      const Member& member = membership_.control.members().of(rank);
      const bool is_remote = member.locality == Locality::remote;
      request.members.push_back({0, {}, is_remote ? nullptr : member.state, member.memory, member.life});
      request.bell.wakes.push_back(shared_.ranks[static_cast<std::size_t>(rank)].wake);
    }
    membership_.control.set_agent_bell(std::make_shared<const AgentBell>(request.bell));
    StartedAgent started = start_agent(std::move(request), bootstrap_, deadline_, abort_);
    membership_.between_hosts.agent = std::move(started.agent);
    membership_.control.set_host_timeout(started.timeout);
    // The nonce is the same at all ranks and unknown to all other processes.
    const std::array<std::uint64_t, 2> seed{membership_.identity.number, 0x6e6f6e6365};
    const std::uint64_t nonce = siphash(bootstrap_.secret(), std::as_bytes(std::span(seed)));
    const Members& members = membership_.control.members();
    const std::vector<Rank>& beside = membership_.hosts.beside(membership_.rank);
    EngineQuestion question{membership_.rank, members.of(membership_.rank).host, started.interfaces, net_name_, nonce};
    question.interfaces = rails_of_this_host(started.interfaces, bootstrap_.root_address());
    question.rank_on_host =
        static_cast<int>(std::find(beside.begin(), beside.end(), membership_.rank) - beside.begin());
    question.ranks_on_host = static_cast<int>(beside.size());
    for (const Rank rank : beside)
      question.busids.emplace_back(records_[static_cast<std::size_t>(rank)].device.busid.data());
    question.host_timeout = started.timeout;
    const AgreedEngine engine = agree_on_engine(question, bootstrap_, deadline_);
    NetMembership between{engine.net, {}, nonce, {}};
    for (const Member& member : members.all)
      between.hosts.push_back(member.locality == Locality::remote ? member.host : "");
    between.addresses =
        exchange_addresses(*engine.net, engine.device, membership_.rank, membership_.hosts.of, bootstrap_, deadline_);
    const int device = between.addresses->device();
    const NetFigures figures =
        figures_of(engine.net->devices()[static_cast<std::size_t>(device)], device, started.interfaces);
    HostBox box;
    if (beside.front() == membership_.rank && !membership_.links.named)
      box = links_of_this_host(question_on(beside, records_, device_));
    topology::Topology links =
        agree_on_host_links(membership_.hosts, membership_.rank, {figures, box}, bootstrap_, deadline_);
    if (!membership_.links.named) membership_.links.topology = std::move(links);
    membership_.between_hosts.net = std::move(between);
  }

  void share_devices() {
    std::vector<DeviceRecord> devices;
    for (const PeerRecord& record : records_) devices.push_back(record.device);
    if (!all_have_devices(devices)) return;
    const auto words_of = [&](Rank rank) {
      const auto& segment = peer(rank).segment;
      return std::shared_ptr<NeighbourWords>(
          segment, reinterpret_cast<NeighbourWords*>(membership_.layout.device_page(segment->data())));
    };
    new (words_of(membership_.rank).get()) NeighbourWords;
    membership_.on_device = share_device_memory(membership_.rank, *device_, devices, membership_.hosts.of,
                                                membership_.settings, bootstrap_, deadline_);
    DeviceMembership& made = *membership_.on_device;
    for (const Rank rank : membership_.hosts.beside(membership_.rank))
      made.peers[static_cast<std::size_t>(rank)].words = words_of(rank);
    if (!membership_.hosts.are_several())
      made.streams = share_stream_path(membership_.rank, made, bootstrap_, deadline_);
    else
      made.proxy = std::make_shared<DeviceProxy>(
          DeviceProxy::Setup{*membership_.between_hosts.net, membership_.rank, *device_, made.layout,
                             made.peers[static_cast<std::size_t>(membership_.rank)].words});
    check_room(made);
  }

  // Replaces ll128 by ll if lines are not possible: ll is the most similar protocol. Rank 0 logs one line.
  void settle_protocol() {
    if (membership_.on_device && membership_.on_device->proxy) return settle_protocol_of_slots();
    const bool possible = membership_.on_device && membership_.on_device->lines == LineVerdict::whole;
    if (membership_.settings.protocol != ProtocolChoice::ll128 || possible || membership_.ranks == 1) return;
    membership_.settings.protocol = ProtocolChoice::ll;
    if (membership_.rank == 0)
      log::info(
          log::Subsystem::init, "ll128 was asked for, but {}; continuing with ll, and simple for what it does not hold",
          membership_.on_device
              ? cause(membership_.on_device->lines)
              : std::string("this communicator is of the host platform, whose stores hold no lines of 128 bytes"));
  }

  // Between devices of different hosts only slots travel.
  void settle_protocol_of_slots() {
    ProtocolChoice& protocol = membership_.settings.protocol;
    if (membership_.rank == 0 && protocol != ProtocolChoice::simple && protocol != ProtocolChoice::automatic)
      log::info(log::Subsystem::init, "devices of several hosts exchange slots: simple serves instead of {}",
                name_of(protocol));
    protocol = ProtocolChoice::simple;
  }

  // Tests direct access by moving data both ways, because permissions, seccomp filters and process namespaces may all
  // forbid it.
  void probe_direct_access() {
    if (membership_.hosts.are_several()) return;
    std::string obstacle = membership_.settings.direct_allowed ? "" : "SCCL_DIRECT=0";
    for (Rank rank = 0; rank < membership_.ranks && obstacle.empty(); ++rank)
      if (!peer(rank).shares_address_space()) obstacle = probe(rank);
    // After this exchange no peer writes into cells any more. The next exchange carries the verdicts.
    bootstrap_.all_gather({}, deadline_);
    for (Rank rank = 0; rank < membership_.ranks && obstacle.empty(); ++rank)
      if (!peer(rank).shares_address_space() && probe_cell(rank) != cell_value(rank, membership_.rank))
        obstacle = fmt::format("what rank {} wrote did not arrive", rank);
    DirectVerdict mine;
    mine.possible = obstacle.empty() ? 1 : 0;
    if (obstacle.empty() && may_prefer_system()) mine.times = copy_times();
    std::vector<DirectVerdict> verdicts;
    for (const Bytes& bytes : bootstrap_.all_gather(to_bytes(mine), deadline_))
      verdicts.push_back(from_bytes<DirectVerdict>(bytes, static_cast<Rank>(verdicts.size())));
    membership_.reach = reach_of(verdicts);
    if (!obstacle.empty())
      log::info(log::Subsystem::init, "rank {}: no single-copy transfers ({}); shared slots are used", membership_.rank,
                obstacle);
  }

  // Returns the same at all ranks.
  Reach reach_of(const std::vector<DirectVerdict>& verdicts) const {
    if (!std::all_of(verdicts.begin(), verdicts.end(), [](const DirectVerdict& one) { return one.possible != 0; }))
      return Reach::none;
    // Equal at all ranks: either one process holds all ranks, or no rank shares an address space with all others.
    const auto& peers = membership_.peers;
    if (std::all_of(peers.begin(), peers.end(), [](const Peer& one) { return one.shares_address_space(); }))
      return Reach::shared_space;
    return system_pays(verdicts.front().times, verdicts.back().times) ? Reach::system_preferred : Reach::through_system;
  }

  // Whether there are two processes on the host platform, and the settings leave the choice of the protocol open.
  bool may_prefer_system() {
    return membership_.ranks == 2 && !peer(1 - membership_.rank).shares_address_space() && !device_ &&
           !membership_.links.topology && membership_.settings.protocol == ProtocolChoice::automatic &&
           membership_.layout.slot_bytes() * device::kSlotCount >= kComparisonBytes;
  }

  CopyTimes copy_times() {
    const Rank other = 1 - membership_.rank;
    constexpr auto kKind = MemoryLayout::RingKind::collective;
    const ComparisonMemory memory{membership_.layout.payload(peer(other).segment->data(), kKind, membership_.rank),
                                  membership_.layout.payload(peer(membership_.rank).segment->data(), kKind, other)};
    const auto times = measure_copies(memory, peer(other).process, membership_.rank == 1);
    if (!times) return {};
    log::info(log::Subsystem::init,
              "rank {}: 64 KiB to and from rank {} take {:.1f} us through slots, {:.1f} us by the system",
              membership_.rank, other, times->slots_us, times->system_us);
    return *times;
  }

  std::uint64_t probe_cell(Rank rank) const {
    // Volatile, because another process writes the cell through the kernel.
    return *const_cast<const volatile std::uint64_t*>(&probe_memory_.front().cells[static_cast<std::size_t>(rank)]);
  }

  std::uint64_t cell_value(Rank writer, Rank reader) const {
    return records_[static_cast<std::size_t>(writer)].probe_pattern * 31 +
           records_[static_cast<std::size_t>(reader)].probe_pattern;
  }

  // Reads the peer's pattern and writes this rank's cell there. Returns "" on success, else the obstacle.
  std::string probe(Rank rank) {
    const PeerRecord& record = records_[static_cast<std::size_t>(rank)];
    Probe read;
    if (const int error = host::read_peer(record.process, &read, record.probe_address, sizeof read); error != 0)
      return fmt::format("process_vm_readv from rank {}: {}", rank, std::strerror(error));
    if (read.pattern != record.probe_pattern)
      return fmt::format("process_vm_readv from rank {} read other memory", rank);
    const std::uint64_t value = cell_value(membership_.rank, rank);
    const std::uint64_t cell =
        read.cells_address + sizeof(std::uint64_t) * static_cast<std::uint64_t>(membership_.rank);
    if (const int error = host::write_peer(record.process, cell, &value, sizeof value); error != 0)
      return fmt::format("process_vm_writev to rank {}: {}", rank, std::strerror(error));
    return "";
  }

  KeptProbes& kept_ = KeptProbes::of_process();
  Deadline deadline_;
  Bootstrap& bootstrap_;
  Membership membership_;
  std::vector<PeerRecord> records_;
  std::optional<gpu::Device> device_;
  int most_blocks_ = 1;
  std::shared_ptr<PluginLibrary> tuner_library_;  // rank 0's
  ProbeMemories probe_memory_{1};
  SharingOutcome shared_;
  std::string net_name_;  // ncclConfig_t.netName
  const std::atomic<bool>& abort_;
};

}  // namespace

int Membership::ranks_on_this_host() const {
  return static_cast<int>(
      std::count_if(peers.begin(), peers.end(), [](const Peer& peer) { return peer.locality != Locality::remote; }));
}

std::string CommunicatorIdentity::text() const { return fmt::format("{:08x}", number & 0xffffffff); }

std::string CommunicatorIdentity::title() const {
  return name.empty() ? text() : fmt::format("\"{}\" ({})", name, text());
}

void tell_those_ready(const Membership& membership, const std::exception& error) {
  if (membership.control.members().ranks() == 0) return;
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), "rank %d: init: %s", membership.rank, cause_of(error));
  membership.control.health().publish_fault(static_cast<int>(code_of(error)), text.data());
}

Membership init_membership(const InitRequest& request, Deadline deadline, const std::atomic<bool>& abort) {
  Bootstrap bootstrap(request.ids, request.rank, request.ranks, deadline, abort, request.watch);
  try {
    return InitExchange(request, bootstrap, deadline, abort).run();
  } catch (const std::bad_alloc& error) {  // of the constructor
    bootstrap.fail(cause_of(error));
    throw;
  }
}

}  // namespace sccl::runtime
