// Package mutation is where a guard can be switched off to prove that its test notices. It owns the list of the
// mutations and nothing else.
//
// In the program that ships On is always false and the compiler removes what stands behind it. Built with the tag
// mutate, the process takes the one mutation that GATEWAYD_MUTATION names. `go test -tags mutate ./e2e -run Mutations`
// shows for each of the list that the test beside it fails with it and passes without.
package mutation

// Mutation is one guard left out, or one step done wrong.
type Mutation struct {
	Name    string
	Package string // of the test that must fail
	Test    string // its name, as -run takes it
}

// List is every mutation there is. Code asks On with the same name.
var List = []Mutation{
	{"derived-uid-ignores-session", "sessiondb", "TestImportKeepsRowsOfDifferentSessionsApart"},
	{"import-without-exists-check", "sessiondb", "TestImportAfterAnUpgradeAddsNothingTwice"},
	{"import-dry-run-writes", "sessiondb", "TestImportDryRunWritesNothing"},
	{"verify-sees-no-live-twin", "sessiondb", "TestVerifySeesALiveTwin"},
	{"identity-is-not-checked", "internal/sqlite", "TestEachWayToLoseTheFileIsNoticedBeforeTheNextWrite"},
	{"retired-generation-is-opened-beside", "internal/sqlite", "TestALostGenerationIsSeenBehindTheNextOne"},
	{"capture-without-lock", "internal/sqlite", "TestAReplacedDatabaseIsNotCapturedInTheMiddleOfATransaction"},
	{"replaced-is-read-by-name", "internal/sqlite", "TestAReplacedDatabaseTakesNoJournalOfTheNewOne"},
	{"capture-skipped-at-close", "internal/sqlite", "TestEveryAcknowledgedRowIsOnDiskOrInTheCapture"},
	{"checkpoint-in-quarantine", "internal/sqlite", "TestClosingALostGenerationDoesNotWriteIntoTheDatabase"},
	{"reinstates-over-later-rows", "internal/sqlite", "TestALostLogIsNotWrittenOverLaterRows"},
	{"scan-eacces-is-gone", "internal/procfs", "TestOnlyADescriptorThatIsGoneHoldsNothing"},
	{"tools-write-without-fence", "kanban/worker/tools", "TestACallThatWasOvertakenWritesNothing"},
	{"author-from-arguments", "kanban/worker/tools", "TestTheAuthorIsTheRunsLaneAndNeverAnArgument"},
	{"attach-url-without-guard", "kanban/worker/tools", "TestAFileIsFetchedFromPublicAddressesOnly"},
	{"command-line-writes-without-fence", "e2e", "TestASupersededWorkerIsRefusedAtEachDoor"},
	{"inherited-run-is-believed", "e2e", "TestAnInheritedRunMakesNobodyAWorker"},
	{"secrets-are-stored", "kanban", "TestNoVerbStoresASecret"},
	{"fence-is-not-asked", "kanban", "TestABoardHeldForASupersededRunWritesNothing"},
	{"migration-without-transaction", "sessiondb", "TestKilledBeforeEachStatement/open"},
	{"compaction-supersedes-tool-rows", "sessiondb", "TestCompactionFoldsKeepsAndCarriesOn"},
	{"compaction-forgets-kept-rows", "sessiondb", "TestCompactionFoldsKeepsAndCarriesOn"},
	{"compaction-drops-late-rows", "sessiondb", "TestCompactionFoldsKeepsAndCarriesOn"},
	{"compaction-without-lease", "sessiondb", "TestCompactionProvesItsLease"},
	{"lease-of-a-later-clock-holds", "sessiondb", "TestClockSetBack"},
	{"spool-acknowledges", "sessiondb", "TestRowsOfAQuarantinedStoreAreSpooledAndNotAcknowledged"},
	{"containment-not-checked", "internal/enclosure", "TestNothingOutsideIsRemoved"},
	{"blob-removed-under-another-row", "kanban", "TestAFileGoesWithTheLastRowThatNamesIt"},
	{"worktree-removed-with-unpushed-commits", "kanban/worker", "TestAWorktreeWithCommitsOfItsOwnStays"},
	{"import-accepts-dot-dot", "kanban", "TestAHostileArchiveLeavesNothingBehind"},
	{"spool-unsynced", "sessiondb", "TestASpooledRowIsSyncedBeforeAnybodyIsTold"},
	{"replay-without-uid", "sessiondb", "TestReplayBringsSpooledRowsBackOnceAndInOrder"},
	{"newer-schema-written", "sessiondb", "TestANewerStoreIsReadAndNeverWritten"},
	{"salvage-without-diff", "sessiondb", "TestALostLogComesBackAtTheNextOpen"},
	{"salvage-without-leases", "sessiondb", "TestATurnGoesOnAfterItsLeaseWasLostWithTheLog"},
	{"index-damage-unchecked", "sessiondb", "TestDamageBesideThatOfAnIndexQuarantines"},
	{"replay-removes-first", "sessiondb", "TestASpoolFileOutlivesAReplayThatFails"},
	{"synchronous-normal", "internal/sqlite", "TestAPowerCutAtAnyMomentLosesNoAcknowledgedRow"},
	{"log-written-after-its-sync", "internal/sqlite", "TestAPowerCutAtAnyMomentLosesNoAcknowledgedRow"},
	{"maintenance-without-holder-check", "internal/sqlite", "TestMaintenanceThatNeedsAFileAloneRefusesAProcessThatHoldsIt"},
	{"vacuum-in-quarantine", "internal/sqlite", "TestVacuumLeavesADamagedFileAsItIs"},
	{"backup-named-before-verified", "internal/sqlite", "TestADamagedDatabaseGetsNoBackupThatIsCalledGood"},
	{"rewind-without-compare", "sessiondb", "TestRewindIsCompareAndSwap"},
	{"delete-leaves-index-entries", "sessiondb", "TestDeleteLeavesNothingBehind"},
	{"rebuild-without-admission", "sessiondb", "TestOneProcessRebuildsAndAKilledOneIsSucceeded"},
	{"failed-sync-is-not-stored", "internal/sqlite", "TestADiskThatFailsAtAnyCallIsExplainedAndLosesNothing/wal/sync_EIO"},
	{"fate-not-asked", "internal/sqlite", "TestACommitOfUnknownFateIsResolvedByAskingForTheRow"},
	{"busy-commit-runs-again", "internal/sqlite", "TestABusyCommitIsAskedForAgainAndTheOperationRunsOnce"},
	{"repair-may-lose-rows", "internal/sqlite", "TestARepairThatWouldLoseReadableRowsIsNotPromoted"},
	{"repair-promotes-by-rename", "internal/sqlite", "TestRepairMendsEachKindOfDamageInPlaceAndKeepsWhatCanBeRead"},
	{"outbox-left-to-the-sweep", "kanban", "TestAnEventAndItsNotificationsAreOneTransaction"},
	{"lease-is-not-looked-at", "kanban", "TestOneProcessDeliversForASubscription"},
	{"news-without-its-key", "gateway", "TestNewsIsStoredOnceForEachKeyAndWakesOnlyWhenItShould"},
	{"webhook-signs-body-alone", "kanban/notify", "TestAWebhookIsSignedAsTheStandardSays"},
	{"netguard-lets-all-through", "internal/netguard", "TestThisMachineIsReachedOnlyWhereThatIsAllowed"},
	{"only-the-last-dispatcher-is-known", "kanban/dispatch", "TestAClaimOfADispatcherBeforeTheLastIsFreedToo"},
	{"worker-without-record-is-gone", "kanban/dispatch", "TestADaemonKilledBeforeAnyStatementLeavesOneWorkerAtMost/records_lost"},
	{"stop-releases-beside-the-worker", "kanban", "TestACardIsNotReleasedBesideItsLivingWorker"},
	{"claim-beside-a-living-worker", "kanban", "TestACardIsNotClaimedWhileItsLastWorkerLives"},
	{"recurrence-stays-due", "kanban", "TestARecurrenceMakesOneCopyForAllTimesThatCame"},
	{"descendants-stay-valid", "kanban", "TestReopeningACardPutsBackWhatWasBuiltOnIt"},
	{"stray-close-cancels-locks", "e2e", "TestChamberLocksHoldBetweenProcesses"},
	{"card-is-free-with-its-leader", "kanban/dispatch", "TestAWorkerOfADeadDispatcherIsEndedWithAllThatItStarted"},
	{"unverified-is-signalled", "kanban/dispatch", "TestAWorkerThatIsNotKnownForCertainIsNeverSignalled"},
	{"only-our-own-keepers-count", "kanban/dispatch", "TestACardDoesNotStartBesideAWorkerOfAnotherHome"},
	{"first-cards-stay-charged", "kanban/dispatch", "TestALaneThatFailsBurnsNoCardAndARestartRemembersIt"},
	{"back-off-is-forgotten", "kanban/dispatch", "TestALaneThatFailsBurnsNoCardAndARestartRemembersIt"},
	{"rule-sleeps-after-a-clock-set-back", "kanban", "TestARuleGoesOnWhenTheClockWasFarAheadAndIsSetBack"},
	{"pause-is-not-asked", "kanban/dispatch", "TestAPausedBoardStartsNothingUntilItIsResumed"},
	{"index-made-anew-beside-a-holder", "kanban", "TestAnIndexIsNotMadeAnewBesideAHolder"},
	{"a-read-creates-a-board", "kanban", "TestTheHintOfAReadVerbWorks"},
	{"found-whole-is-believed-of-another-content", "kanban", "TestABoardThatWasFoundWholeIsCheckedAgainOnceItChanged"},
	{"columns-without-warnings", "gateway/api", "TestABoardsCardsCarryTheirWarnings"},
	{"why-hides-a-hold", "kanban/dispatch", "TestWhyHidesNoHoldBehindTheFirst"},
	{"worker-reaches-other-cards", "kanban", "TestAWorkerReachesItsOwnCardAndAddsToOthers"},
	{"verb-wakes-nobody", "gateway/api", "TestEveryChangeWakesTheDispatcher"},
}
