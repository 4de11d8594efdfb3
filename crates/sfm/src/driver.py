# Drives COLMAP through the pycolmap package. Input: a job as JSON. Output: events as JSON lines.
#
# Run as `python -c DRIVER JOB.json`, or `python -c DRIVER --version`. Progress within a stage is read from COLMAP's
# log on stderr. Models are written to JOB["models"]/0, /1, ...; the caller selects one.
import sys

# `python -c` searches the working folder for modules first; it is removed from the path. `sys` is built in.
sys.path[:] = [place for place in sys.path if place]

import json
import os
import shutil
import threading
import time


def say(event, **facts):
    facts["event"] = event
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def fail(what, kind=None):
    say("error", what=" ".join(str(what).split())[:500], kind=kind)
    sys.exit(3)


try:
    import pycolmap
except ImportError as error:
    say("absent", what=str(error))
    sys.exit(4)


def end_with_parent():
    """Ends this process when its parent process has ended for any reason."""
    parent = os.getppid()

    def watch():
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(5)

    # On Windows, the result of getppid never changes, so this has no effect there.
    threading.Thread(target=watch, daemon=True).start()


def put(options, **values):
    for name, value in values.items():
        setattr(options, name, value)
    return options


def import_given(job, reader, mode):
    """Imports images with third-party keypoints and raw matches, from files that the caller wrote or from a database."""
    import numpy

    pycolmap.Database.open(job["database"]).close()
    pycolmap.import_images(
        job["database"], job["images"], camera_mode=mode, image_names=job["image_names"], options=reader
    )
    given = job["given"]
    with pycolmap.Database.open(job["database"]) as database:
        images = {image.name: image for image in database.read_all_images()}
        cameras = {camera.camera_id: camera for camera in database.read_all_cameras()}
        if "database" in given:
            # A copy, because opening a database migrates it to the schema of this version.
            copy = job["database"] + ".given"
            shutil.copyfile(given["database"], copy)
            try:
                theirs = pycolmap.Database.open(copy)
            except RuntimeError as error:
                fail(f"database: cannot be read (expected a complete COLMAP database; {error})", "matches")
            with theirs:
                import_database(theirs, database, images, cameras, job["frame_of"])
            os.remove(copy)
            return
        keypoints = numpy.fromfile(given["keypoints"], dtype="<f4").reshape(-1, 2)
        matches = numpy.fromfile(given["matches"], dtype="<u4").reshape(-1, 2)
        for name, begin, end in given["pictures"]:
            database.write_keypoints(images[name].image_id, keypoints[begin:end])
        for first, second, begin, end in given["pairs"]:
            database.write_matches(images[first].image_id, images[second].image_id, matches[begin:end])


def import_database(theirs, database, images, cameras, frame_of):
    names, counts = {}, {}
    their_cameras = {camera.camera_id: camera for camera in theirs.read_all_cameras()}
    for image in theirs.read_all_images():
        own = images.get(image.name)
        if own is None:
            fail(f"image {image.name!r}: is not part of this alignment", "matches")
        size = [(camera.width, camera.height) for camera in (their_cameras[image.camera_id], cameras[own.camera_id])]
        if size[0] != size[1]:
            fail(f"image {image.name!r}: is {size[0][0]}x{size[0][1]} px in the database (expected {size[1][0]}x{size[1][1]})", "matches")
        keypoints = theirs.read_keypoints(image.image_id)
        if len(keypoints):
            database.write_keypoints(own.image_id, keypoints)
        names[image.image_id], counts[image.image_id] = image.name, len(keypoints)
    pairs = 0
    for pair, matches in zip(*theirs.read_all_matches()):
        # COLMAP's id of a pair is the smaller image id times 2^31 - 1, plus the other image id.
        ids = [pair // 2147483647, pair % 2147483647]
        if any(number not in names for number in ids):
            fail("matches: of images that are not in the database", "matches")
        for side, number in enumerate(ids):
            if len(matches) and int(matches[:, side].max()) >= counts[number]:
                fail(f"image {names[number]!r}: a match names keypoint {int(matches[:, side].max())} (expected less than {counts[number]})", "matches")
        first, second = (names[number] for number in ids)
        if len(matches) and frame_of.get(first) != frame_of.get(second):
            database.write_matches(images[first].image_id, images[second].image_id, matches)
            pairs += 1
    if not pairs:
        fail("matches: none between images of different frames", "matches")


def features(job):
    reader = pycolmap.ImageReaderOptions()
    reader.camera_model = job["camera_model"]
    if job["camera_params"]:
        reader.camera_params = job["camera_params"]
    if job["masks"]:
        reader.mask_path = job["masks"]
    mode = {
        "per-folder": pycolmap.CameraMode.PER_FOLDER,
        "single": pycolmap.CameraMode.SINGLE,
        "auto": pycolmap.CameraMode.AUTO,
    }[job["camera_mode"]]
    if job["given"]:
        import_given(job, reader, mode)
    else:
        extract(job, reader, mode)
    if job["rig_config"]:
        with pycolmap.Database.open(job["database"]) as database:
            pycolmap.apply_rig_config(pycolmap.read_rig_config(job["rig_config"]), database)


def extract(job, reader, mode):
    extraction = put(pycolmap.FeatureExtractionOptions(), num_threads=job["threads"], use_gpu=False)
    limited = extraction if hasattr(extraction, "max_image_size") else extraction.sift
    put(limited, max_image_size=job["max_image_size"])
    put(extraction.sift, max_num_features=job["max_features"])
    if job["affine_shape"]:
        put(extraction.sift, estimate_affine_shape=True)
    pycolmap.extract_features(
        job["database"],
        job["images"],
        image_names=job["image_names"],
        reader_options=reader,
        camera_mode=mode,
        extraction_options=extraction,
    )


def matching(job):
    if job["given"]:
        verifier = put(pycolmap.GeometricVerifierOptions(), num_threads=job["threads"])
        put(verifier, rig_verification=bool(job["rig_config"]))
        pycolmap.geometric_verification(job["database"], verifier_options=verifier)
        return
    options = put(pycolmap.FeatureMatchingOptions(), num_threads=job["threads"], use_gpu=False)
    if job["rig_config"]:
        put(options, rig_verification=True, skip_image_pairs_in_same_frame=True)
    if job["matcher"] == "exhaustive":
        pycolmap.match_exhaustive(job["database"], matching_options=options)
    elif job["matcher"] == "listed":
        if not hasattr(pycolmap, "match_image_pairs"):
            fail(f"pycolmap {pycolmap.__version__} matches no list of pairs (expected 4.0 or later)")
        pairing = put(pycolmap.ImportedPairingOptions(), match_list_path=job["pair_list"])
        pycolmap.match_image_pairs(job["database"], matching_options=options, pairing_options=pairing)
    else:
        # Loop detection needs a vocabulary tree, which COLMAP would download.
        pairing = put(pycolmap.SequentialPairingOptions(), overlap=job["overlap"], loop_detection=False)
        pycolmap.match_sequential(job["database"], matching_options=options, pairing_options=pairing)


def say_facts(job):
    """Reports the largest number of features of an image, the number of verified pairs, and the images without one."""
    with pycolmap.Database.open(job["database"]) as database:
        if not hasattr(database, "read_two_view_geometry_num_inliers"):
            return
        images = {image.image_id: image.name for image in database.read_all_images()}
        most = max((database.num_keypoints_for_image(number) for number in images), default=0)
        verified, paired = 0, set()
        for pair, inliers in zip(*database.read_two_view_geometry_num_inliers()):
            if inliers > 0:
                verified += 1
                paired.update([pair // 2147483647, pair % 2147483647])
    without = sorted(name for number, name in images.items() if number not in paired)
    say("facts", most=most, verified=verified, without=without)


def known_model(job):
    """The model with known poses, by the ids of the database: image ids depend on the order in which threads finish."""
    given = pycolmap.Reconstruction(job["known"])
    poses = {image.name: image.cam_from_world() for image in given.images.values()}
    model = pycolmap.Reconstruction()
    with pycolmap.Database.open(job["database"]) as database:
        for camera in database.read_all_cameras():
            model.add_camera(camera)
        rigs = database.read_all_rigs()
        frames = database.read_all_frames()
        images = database.read_all_images()
    for rig in rigs:
        model.add_rig(rig)
    reference = {rig.rig_id: rig.ref_sensor_id for rig in rigs}
    names = {image.image_id: image.name for image in images}
    known = set()
    for frame in frames:
        first = [data.id for data in frame.data_ids if data.sensor_id == reference[frame.rig_id]]
        pose = poses.get(names[first[0]]) if first else None
        if pose is not None:
            frame.rig_from_world = pose
            model.add_frame(frame)
            known.add(frame.frame_id)
    for image in images:
        if image.frame_id in known:
            model.add_image(image)
    for frame in sorted(known):
        model.register_frame(frame)
    return model


def refine(job, model, options, folder):
    """Bundle adjustment of poses and points from approximate poses. Between the rounds, bad observations are removed and
    points are triangulated again with better poses. Known positions are priors of the centres."""
    adjustment = put(
        pycolmap.BundleAdjustmentOptions(),
        refine_sensor_from_rig=False,
        refine_focal_length=not job["fixed_intrinsics"],
        refine_extra_params=not job["fixed_intrinsics"],
    )
    for turn in range(3):
        if turn:
            model = pycolmap.triangulate_points(model, job["database"], job["images"], folder, options=options)
        if job["priors"]:
            adjust_with_priors(job, model, adjustment)
        else:
            pycolmap.bundle_adjustment(model, adjustment)
        seen = pycolmap.ObservationManager(model)
        # COLMAP's defaults: largest reprojection error, px; smallest triangulation angle, degrees.
        seen.filter_all_points3D(4.0, 1.5)
    model.update_point_3d_errors()
    model.write(folder)


def adjust_with_priors(job, model, adjustment):
    import numpy

    images = {image.name: image for image in model.images.values()}
    config = pycolmap.BundleAdjustmentConfig()
    for number in model.reg_image_ids():
        config.add_image(number)
    for number in model.cameras:
        if job["fixed_intrinsics"]:
            config.set_constant_cam_intrinsics(number)
    for rig in model.rigs.values():
        for sensor in rig.non_ref_sensors:
            config.set_constant_sensor_from_rig_pose(sensor)
    priors = []
    for name, place, deviation in job["priors"]:
        image = images.get(name)
        if image is not None:
            prior = pycolmap.PosePrior()
            prior.pose_prior_id = len(priors) + 1
            prior.corr_data_id = image.data_id
            prior.position = numpy.array(place)
            prior.position_covariance = numpy.eye(3) * deviation**2
            prior.coordinate_system = pycolmap.PosePriorCoordinateSystem.CARTESIAN
            priors.append(prior)
    options = pycolmap.PosePriorBundleAdjustmentOptions()
    put(options.ceres, prior_position_loss_function_type=pycolmap.LossFunctionType.CAUCHY)
    pycolmap.create_pose_prior_bundle_adjuster(adjustment, options, config, priors, model).solve()


def triangulation(job, options):
    """Triangulates points for known poses, which are refined if the job asks for it. The model is written as number 0."""
    folder = os.path.join(job["models"], "0")
    os.makedirs(folder, exist_ok=True)
    # The rig is known as exactly as the poses.
    put(options, num_threads=job["threads"], ba_refine_sensor_from_rig=False)
    if hasattr(options, "random_seed"):
        options.random_seed = job["seed"]
    model = pycolmap.triangulate_points(known_model(job), job["database"], job["images"], folder, options=options)
    if job["refine"]:
        refine(job, model, options, folder)


def global_mapping(job):
    """Rotation averaging, then global positioning (GLOMAP)."""
    if not hasattr(pycolmap, "global_mapping"):
        fail(f"pycolmap {pycolmap.__version__} has no global mapper (expected 4.0 or later)")
    options = put(pycolmap.GlobalPipelineOptions(), num_threads=job["threads"], min_num_matches=job["min_matches"])
    put(options, random_seed=job["seed"])
    put(options.mapper.global_positioning, use_gpu=False)
    adjustment = put(options.mapper.bundle_adjustment, refine_principal_point=False)
    put(adjustment.ceres, use_gpu=False)
    if job["fixed_intrinsics"]:
        put(adjustment, refine_focal_length=False, refine_extra_params=False)
    if job["rig_config"]:
        put(options.mapper, refine_sensor_from_rig=False)
        put(options.mapper.rotation_averaging, refine_sensor_from_rig=False)
        put(options.mapper.global_positioning, refine_sensor_from_rig=False)
        put(adjustment, refine_sensor_from_rig=False)
    pycolmap.global_mapping(job["database"], job["images"], job["models"], options)


def mapping(job):
    os.makedirs(job["models"], exist_ok=True)
    if job["mapper"] == "global":
        global_mapping(job)
        return
    options = pycolmap.IncrementalPipelineOptions()
    if job["known"]:
        triangulation(job, options)
        return
    put(options, num_threads=job["threads"], min_num_matches=job["min_matches"])
    if job["fixed_intrinsics"]:
        put(
            options,
            ba_refine_focal_length=False,
            ba_refine_principal_point=False,
            ba_refine_extra_params=False,
        )
    if job["rig_config"]:
        put(options, ba_refine_sensor_from_rig=False)
    if hasattr(options, "random_seed"):
        options.random_seed = job["seed"]
    pycolmap.incremental_mapping(job["database"], job["images"], job["models"], options)


def main():
    if sys.argv[1:] == ["--version"]:
        say("version", version=pycolmap.__version__, python=sys.version.split()[0])
        return
    end_with_parent()
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    pycolmap.set_random_seed(job["seed"])
    say("version", version=pycolmap.__version__, python=sys.version.split()[0])
    stages = {"features": features, "matching": matching, "mapping": mapping}
    for name in job["stages"]:
        say("stage", name=name)
        stages[name](job)
        if name == "matching":
            say_facts(job)
    say("done")


try:
    main()
except SystemExit:
    raise
except BaseException as error:
    fail(f"{type(error).__name__}: {error}")
