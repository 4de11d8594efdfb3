# Drives COLMAP through the pycolmap package: a job as JSON in, events as JSON lines out.
#
# Run as `python -c DRIVER JOB.json`, or `python -c DRIVER --version`. Progress within a stage is what COLMAP itself
# logs on stderr. Models are left in JOB["models"]/0, /1, ... for the caller to choose from.
import sys

# `python -c` looks for modules in the working folder first: nothing is imported from there. `sys` is built in.
sys.path[:] = [place for place in sys.path if place]

import json
import os
import threading
import time


def say(event, **facts):
    facts["event"] = event
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def fail(what):
    say("error", what=" ".join(str(what).split())[:500])
    sys.exit(3)


try:
    import pycolmap
except ImportError as error:
    say("absent", what=str(error))
    sys.exit(4)


def end_with_parent():
    """Ends this process when the one that started it is gone, however that ended."""
    parent = os.getppid()

    def watch():
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(5)

    # Where Windows has getppid, it never changes.
    threading.Thread(target=watch, daemon=True).start()


def put(options, **values):
    for name, value in values.items():
        setattr(options, name, value)
    return options


def features(job):
    reader = pycolmap.ImageReaderOptions()
    reader.camera_model = job["camera_model"]
    if job["camera_params"]:
        reader.camera_params = job["camera_params"]
    if job["masks"]:
        reader.mask_path = job["masks"]
    extraction = put(pycolmap.FeatureExtractionOptions(), num_threads=job["threads"], use_gpu=False)
    put(extraction.sift, max_num_features=job["max_features"])
    if job["affine_shape"]:
        put(extraction.sift, estimate_affine_shape=True)
    mode = {
        "per-folder": pycolmap.CameraMode.PER_FOLDER,
        "single": pycolmap.CameraMode.SINGLE,
        "auto": pycolmap.CameraMode.AUTO,
    }[job["camera_mode"]]
    pycolmap.extract_features(
        job["database"], job["images"], reader_options=reader, camera_mode=mode, extraction_options=extraction
    )
    if job["rig_config"]:
        with pycolmap.Database.open(job["database"]) as database:
            pycolmap.apply_rig_config(pycolmap.read_rig_config(job["rig_config"]), database)


def matching(job):
    options = put(pycolmap.FeatureMatchingOptions(), num_threads=job["threads"], use_gpu=False)
    if job["rig_config"]:
        put(options, rig_verification=True, skip_image_pairs_in_same_frame=True)
    if job["matcher"] == "exhaustive":
        pycolmap.match_exhaustive(job["database"], matching_options=options)
    else:
        # Loop detection needs a vocabulary tree, which COLMAP would download.
        pairing = put(pycolmap.SequentialPairingOptions(), overlap=job["overlap"], loop_detection=False)
        pycolmap.match_sequential(job["database"], matching_options=options, pairing_options=pairing)


def known_model(job):
    """The model with known poses, by the database's numbers: those of pictures follow the order in which threads end."""
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


def triangulation(job, options):
    """Points for poses that stay as they are. Models are numbered: this is the first."""
    folder = os.path.join(job["models"], "0")
    os.makedirs(folder, exist_ok=True)
    # The rig is as exact as the poses.
    put(options, num_threads=job["threads"], ba_refine_sensor_from_rig=False)
    if hasattr(options, "random_seed"):
        options.random_seed = job["seed"]
    pycolmap.triangulate_points(known_model(job), job["database"], job["images"], folder, options=options)


def global_mapping(job):
    """All rotations, then all positions (GLOMAP)."""
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
    say("done")


try:
    main()
except SystemExit:
    raise
except BaseException as error:
    fail(f"{type(error).__name__}: {error}")
